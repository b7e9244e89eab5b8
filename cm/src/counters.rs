//! The counters of an agent.

/// Counters of ignored messages by reason, of retransmissions, and of peers found to be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// MADs of another class, version, method or attribute, and those with a reserved value in a
    /// field.
    pub unknown: u64,
    /// Messages about connections that do not exist, messages from a host other than the peer, and
    /// messages that the connection's state does not expect.
    pub unexpected: u64,
    /// Messages that have arrived before.
    pub duplicates: u64,
    /// Requests beyond a listener's backlog.
    pub backlog_full: u64,
    /// Requests beyond the limit of unanswered requests or of connections.
    pub too_many: u64,
    /// Messages dropped because the queue of messages to send is full.
    pub outbox_full: u64,
    /// Retransmitted messages.
    pub retransmitted: u64,
    /// Probes of a peer, after its host answered "port unreachable" or a REQ suggested that the peer
    /// has forgotten a connection.
    pub probes: u64,
    /// Answers (DREP) to probes.
    pub probe_answers: u64,
    /// Connections that ended because their peer was found to be gone.
    pub peer_gone: u64,
}

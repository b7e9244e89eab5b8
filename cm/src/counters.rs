//! What an agent counts.

/// What came and was not used, by reason, and what was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// MADs of another class, version, method or attribute, and those with a field that is
    /// reserved.
    pub unknown: u64,
    /// Messages about connections that are not there, or of somebody else than the peer, or
    /// that the state has no use for.
    pub unexpected: u64,
    /// Messages that had come before.
    pub duplicates: u64,
    /// Requests beyond a listener's backlog.
    pub backlog_full: u64,
    /// Requests beyond what an agent takes before their owners answer, or beyond the most
    /// connections that it can have.
    pub too_many: u64,
    /// Messages that were not sent since too many wait to be sent.
    pub outbox_full: u64,
    /// Messages that were repeated.
    pub repeated: u64,
    /// Questions whether a peer is alive, after its host said "port unreachable".
    pub questions: u64,
    /// Answers to them.
    pub answers: u64,
    /// Connections that ended since their peer was found to be gone.
    pub peer_gone: u64,
}

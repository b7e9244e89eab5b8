//! The state of one connection or lookup.

use crate::{
    ConnectionId, Duration, Instant, ListenerId, MAD_LEN, Path, Qpn, ServiceId, ServiceType,
};
use roce_wire::cm::{CmMad, CmMessage};

/// A whole MAD, ready to be sent.
pub(super) type Mad = Box<[u8; MAD_LEN]>;

/// One connection, or one lookup.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) path: Path,
    /// The peer's ID for the connection, once known.
    pub(super) remote_id: Option<u32>,
    /// The transaction ID of the messages that establish the connection, and later of the messages
    /// that end it.
    pub(super) transaction: u64,
    pub(super) local_qpn: Qpn,
    pub(super) remote_qpn: Option<Qpn>,
    /// The requested service.
    pub(super) service: ServiceId,
    pub(super) service_type: ServiceType,
    /// Whether this is a SIDR lookup.
    pub(super) lookup: bool,
    /// Whether the owner wants events about the connection.
    pub(super) owned: bool,
    /// The listener whose backlog this request counts against.
    pub(super) in_backlog_of: Option<ListenerId>,
    /// The time to wait for the peer's answer, including the travel times of two packets.
    pub(super) answer_timeout: Duration,
    /// The maximum number of retransmissions of each message.
    pub(super) max_retries: u8,
    /// The number of probes sent to find out whether the peer has forgotten the established
    /// connection; 0 if there is no hint that it has.
    pub(super) probes: u8,
    /// The number of times that one end has called the other's QP stale, while this agent requested
    /// the connection.
    pub(super) stale_answers: u8,
    pub(super) state: State,
    /// When the state ends, its message is retransmitted, or the last probe times out.
    pub(super) deadline: Option<Instant>,
}

/// The state of a connection or lookup (IBTA 1.7, 12.9.5 and 12.9.7).
#[derive(Debug)]
pub(super) enum State {
    /// Active: waits for the REP.
    ReqSent(Retransmitted),
    /// Passive: waits for its owner to accept.
    ReqReceived,
    /// Passive: waits for the RTU.
    RepSent(Retransmitted),
    /// Active: waits for its owner to be ready.
    RepReceived,
    /// Established: waits for either end to end it. Keeps the RTU if this side sent it.
    Established(Option<Mad>),
    /// Waits for the DREP.
    DreqSent(Retransmitted),
    /// Waits for its owner to call [`Agent::disconnect`](super::Agent::disconnect).
    DreqReceived,
    /// Waits for packets in flight to die out. Keeps the DREP if this side sent it.
    TimeWait(Option<Mad>),
    /// Lookup: waits for the SIDR_REP.
    LookupSent(Retransmitted),
    /// Lookup: waits for its owner to answer.
    LookupReceived,
    /// Ended without time wait: kept only to repeat its answer.
    Finished(Option<Mad>),
}

/// A message that is retransmitted until it is answered.
#[derive(Debug)]
pub(super) struct Retransmitted {
    pub(super) mad: Mad,
    /// The number of timeouts left before the agent gives up.
    pub(super) retries_left: u8,
    /// The number of timeouts since the first transmission.
    pub(super) waited: u8,
}

impl Retransmitted {
    /// The number of timeouts until the next retransmission: as many as have passed so far, and at
    /// most `longest`, so 1, 2, 3, 3, ... for 3. Takes them from those that are left.
    pub(super) fn next_wait(&mut self, longest: u8) -> u8 {
        let wait = self.waited.min(longest).min(self.retries_left);
        self.retries_left -= wait;
        self.waited = self.waited.saturating_add(wait);
        wait
    }
}

impl State {
    /// The state in words, for errors.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            State::ReqSent(_) => "waits for a reply",
            State::ReqReceived => "waits to be accepted",
            State::RepSent(_) => "waits for the peer to be ready",
            State::RepReceived => "waits for its owner to be ready",
            State::Established(_) => "is established",
            State::DreqSent(_) => "is being ended",
            State::DreqReceived => "waits to be ended",
            State::TimeWait(_) | State::Finished(_) => "has ended",
            State::LookupSent(_) => "looks up a datagram service",
            State::LookupReceived => "waits for its owner to name a QP",
        }
    }

    /// Whether the state is that of a peer's request that the owner has not answered.
    pub(super) const fn is_unanswered(&self) -> bool {
        matches!(self, State::ReqReceived | State::LookupReceived)
    }

    /// Whether the state is that of a request of this side that nobody has answered.
    pub(super) const fn is_requested(&self) -> bool {
        matches!(self, State::ReqSent(_) | State::LookupSent(_))
    }

    /// Whether the connection is kept only to repeat its answer.
    pub(super) const fn is_finished(&self) -> bool {
        matches!(self, State::Finished(_))
    }
}

impl Connection {
    /// A message of this connection, encoded.
    pub(super) fn mad(&self, message: CmMessage<'_>) -> Mad {
        let transaction = self.transaction;
        Box::new(
            CmMad {
                transaction,
                message,
            }
            .to_bytes(),
        )
    }

    /// Both communication IDs; 0 for an unknown one.
    pub(super) fn ids(&self) -> (u32, u32) {
        (self.id.get(), self.remote_id.unwrap_or(0))
    }

    /// Whether a message that arrived on this path, with the sender's ID for the connection, can be
    /// from the peer.
    // rule: 12.9-peer-only
    pub(super) fn is_with(&self, path: Path, remote_id: u32) -> bool {
        self.path == path && self.remote_id == Some(remote_id)
    }
}

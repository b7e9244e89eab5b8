//! One connection, or one lookup, and what it waits for.

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
    /// What the peer calls it, as soon as that is known.
    pub(super) remote_id: Option<u32>,
    /// The transaction of the messages that make it, later of those that end it.
    pub(super) transaction: u64,
    pub(super) local_qpn: Qpn,
    pub(super) remote_qpn: Option<Qpn>,
    /// What was asked for.
    pub(super) service: ServiceId,
    pub(super) service_type: ServiceType,
    /// Whether it is a lookup by SIDR.
    pub(super) lookup: bool,
    /// Whether its owner wants to hear of it.
    pub(super) owned: bool,
    /// Whose backlog it counts against.
    pub(super) waits_for: Option<ListenerId>,
    /// How long the peer takes to answer, at the most, packets' ways included.
    pub(super) peer_takes: Duration,
    /// How often a message is repeated.
    pub(super) retries: u8,
    pub(super) state: State,
    /// When the state ends, or repeats its message.
    pub(super) deadline: Option<Instant>,
}

/// What a connection or lookup waits for (IBTA 1.7, 12.9.5 and 12.9.7).
#[derive(Debug)]
pub(super) enum State {
    /// Active: for the REP.
    ReqSent(Repeated),
    /// Passive: for its owner to accept.
    ReqReceived,
    /// Passive: for the RTU.
    RepSent(Repeated),
    /// Active: for its owner to be ready.
    RepReceived,
    /// For either end to end it. The RTU is kept, if it was sent from here.
    Established(Option<Mad>),
    /// For the DREP.
    DreqSent(Repeated),
    /// For its owner to agree.
    DreqReceived,
    /// For packets to die that are still under way. The DREP is kept, if it was sent from here.
    TimeWait(Option<Mad>),
    /// Lookup: for the SIDR_REP.
    LookupSent(Repeated),
    /// Lookup: for its owner to answer.
    LookupReceived,
    /// For nothing, but what was answered is answered again if it is asked for again.
    Over(Option<Mad>),
}

/// A message that is repeated until it is answered.
#[derive(Debug)]
pub(super) struct Repeated {
    pub(super) mad: Mad,
    /// How often it may still be repeated.
    pub(super) left: u8,
}

impl State {
    /// What it does, for errors.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            State::ReqSent(_) => "waits for a reply",
            State::ReqReceived => "waits to be accepted",
            State::RepSent(_) => "waits for the peer to be ready",
            State::RepReceived => "waits for its owner to be ready",
            State::Established(_) => "is established",
            State::DreqSent(_) => "is being ended",
            State::DreqReceived => "waits to be ended",
            State::TimeWait(_) | State::Over(_) => "has ended",
            State::LookupSent(_) => "looks up a datagram service",
            State::LookupReceived => "waits for a QP to be told",
        }
    }

    /// Whether a stranger brought it here, and its owner has not answered.
    pub(super) const fn is_unanswered(&self) -> bool {
        matches!(self, State::ReqReceived | State::LookupReceived)
    }

    /// Whether it is kept for its answer only.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self, State::Over(_))
    }
}

impl Connection {
    /// A message of it.
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

    /// Both communication IDs; 0 for one that is not known.
    pub(super) fn ids(&self) -> (u32, u32) {
        (self.id.get(), self.remote_id.unwrap_or(0))
    }

    /// Whether a message that came this way, with what its sender calls the connection, can be
    /// of the peer.
    // rule: 12.9-peer-only
    pub(super) fn is_with(&self, path: Path, remote_id: u32) -> bool {
        self.path == path && self.remote_id == Some(remote_id)
    }
}

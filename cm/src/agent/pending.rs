//! Connections and lookups that are not established yet, for observation.

use super::state::{Connection, Retransmitted, State};
use crate::{Path, ServiceId};

/// A connection or lookup that waits for the peer or for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// The path to the peer.
    pub path: Path,
    /// The requested service.
    pub service: ServiceId,
    /// What it waits for.
    pub waits_for: PendingStep,
}

/// What a connection or lookup waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PendingStep {
    /// The peer has not answered a message: `REQ`, `REP` or `SIDR_REQ`.
    Answer {
        /// The message.
        to: &'static str,
        /// How often it was sent.
        times: u8,
    },
    /// The owner has neither accepted nor rejected the peer's request.
    Acceptance,
    /// The peer has accepted, and the owner is not ready.
    Readiness,
}

impl Pending {
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let answer = |to, sent: &Retransmitted| PendingStep::Answer {
            to,
            times: 1 + connection.max_retries.saturating_sub(sent.retries_left),
        };
        let waits_for = match &connection.state {
            State::ReqSent(sent) => answer("REQ", sent),
            State::RepSent(sent) => answer("REP", sent),
            State::LookupSent(sent) => answer("SIDR_REQ", sent),
            State::ReqReceived | State::LookupReceived => PendingStep::Acceptance,
            State::RepReceived => PendingStep::Readiness,
            State::Established(_)
            | State::DreqSent(_)
            | State::DreqReceived
            | State::TimeWait(_)
            | State::Finished(_) => return None,
        };
        Some(Self {
            path: connection.path,
            service: connection.service,
            waits_for,
        })
    }
}

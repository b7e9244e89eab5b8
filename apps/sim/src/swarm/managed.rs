//! The state of connections that connection managers make.

use roce_cm::{Agent, ConnectionId};
use roce_stack::Instant;
use std::collections::BTreeMap;

/// The connection manager of a host.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) agent: Agent,
    /// The time of its scheduled call, if any.
    pub(super) next_call: Option<Instant>,
    /// The pair and side of each connection.
    pub(super) names: BTreeMap<ConnectionId, (usize, usize)>,
}

/// How far one end of a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has sent no message.
    #[default]
    Idle,
    /// It has requested the connection.
    Asked,
    /// It has accepted the request.
    Accepted,
    /// It considers the connection established.
    Open,
    /// It has asked to end the connection.
    Closing,
    /// It has agreed to end the connection, and waits for late packets.
    Waiting,
    /// The connection is over, or was never made.
    Over,
}

/// The connection of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Managed {
    pub(super) phase: Phase,
    pub(super) id: Option<ConnectionId>,
}

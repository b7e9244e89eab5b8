//! Connections in single steps, as programs of librdmacm make them.
//!
//! An [`Id`] is one end of a connection, a listener, or a member of multicast groups. It is bound to
//! an address, resolves its peer's address, then connects; or it listens, and each request that
//! arrives gets an ID of its own. Each step but binding ends with an [`Event`] in the [`Channel`] of the
//! ID. Steps that end immediately return it, for [`Event::deliver`]. The program takes events by
//! [`next_event`], and calls [`Event::handle`] before it looks at them: QPs change their states, and
//! answers are sent, in the thread of the program.
//!
//! Programs in Rust rather use [`Listener`](crate::Listener) and [`Connection`](crate::Connection).
//!
//! Locks are taken in this order: an ID's channel, its state, the agent of the connection manager.

mod accept;
mod arrival;
mod connect;
mod device;
mod error;
mod event;
#[cfg(feature = "observe")]
mod failure;
mod id;
mod multicast;
mod negotiated;
mod resolve;
#[cfg(test)]
mod tests;

pub use connect::ConnectionOptions;
pub use device::Devices;
pub use error::IdError;
pub use event::next_event;
pub use negotiated::{HOP_LIMIT, IdPath, IdQp, QpParameters};

use self::device::Owners;
use self::negotiated::Negotiated;
use crate::cm::{ConnectionManager, PortClaim};
use crate::device::{Context, EventQueue};
use crate::events::Unacknowledged;
use parking_lot::Mutex;
use roce_cm::{ConnectionId, ListenerId, PortSpace, Reply, Request};
use roce_stack::QpKind;
use roce_wire::{QKey, Qpn};
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

/// The Q_Key of `RDMA_PS_UDP`: that of datagram services and multicast groups.
pub const UDP_QKEY: QKey = QKey(0x0123_4567);

/// The events of IDs that the program has not taken yet. Its descriptor is readable if there are any.
pub type Channel = EventQueue<Event>;

/// One end of a connection, a listener, or a member of multicast groups.
#[derive(Debug)]
pub struct Id {
    attached: Mutex<Attached>,
    unacknowledged: Arc<Unacknowledged>,
    space: PortSpace,
    /// The kind of its QP.
    kind: QpKind,
    /// Whether `::` means IPv6 addresses only.
    is_v6_only: AtomicBool,
    /// Whether it represents a peer's request that the program has not accepted. As in the kernel, it
    /// has no events: the program may not know of it yet, and learns of a peer that has given up when
    /// it accepts.
    awaits_accept: AtomicBool,
    owner: Owner,
    inner: Mutex<Inner>,
}

/// The channel of an ID's events.
struct Attached {
    channel: Arc<Channel>,
    /// The ID has been destroyed, and has no events any more. One in the queue would keep the ID and
    /// its channel for ever.
    is_gone: bool,
}

debug_fields!(Attached is_gone);

/// The program's object that an ID belongs to.
type Owner = OnceLock<Weak<dyn Any + Send + Sync>>;

/// How far an ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is new.
    Idle,
    /// It is bound to a local address, or to all of them.
    Bound,
    /// The peer's address and the device are known.
    AddrResolved,
    /// The path is known, too.
    RouteResolved,
    /// It listens.
    Listening,
    /// It has sent a REQ, or a SIDR_REQ for a datagram service.
    Connecting,
    /// The peer has accepted with a REP. This end must send an RTU.
    ReplyReceived,
    /// It represents a connection that a peer has requested.
    RequestReceived,
    /// It has accepted, or is connected.
    Connected,
    /// The connection is over, or was never established.
    Closed,
}

/// The mutable part of an ID.
struct Inner {
    state: State,
    device: Option<Arc<IdDevice>>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    claim: Option<PortClaim>,
    listeners: Vec<(Arc<IdDevice>, ListenerId)>,
    connection: Option<ConnectionId>,
    negotiated: Negotiated,
    /// The starting PSN of the peer's send queue; for datagrams, that of this QP's.
    psn: u32,
    ack_timeout: Option<u8>,
    groups: Vec<Group>,
}

debug_fields!(Inner state local remote);

/// A multicast group that an ID has joined.
#[derive(Clone, Copy, Debug)]
struct Group {
    address: IpAddr,
    /// Whether the ID's QP is attached to it.
    is_attached: bool,
}

/// An open device with the IDs that use it.
pub struct IdDevice {
    context: Context,
    manager: Arc<ConnectionManager>,
    connections: Owners<ConnectionId>,
    listeners: Owners<ListenerId>,
}

debug_fields!(IdDevice manager);

/// An event of an ID.
#[derive(Debug)]
pub struct Event {
    /// The ID whose destruction waits for the acknowledgement. For a request, the listener.
    pub id: Arc<Id>,
    /// For a request, the ID of the new connection.
    pub child: Option<Arc<Id>>,
    /// The kind of event.
    pub kind: EventKind,
    /// Why it is a failure, if it is one.
    pub failure: Option<Failure>,
    /// The parameters.
    pub data: EventData,
    /// The peer's private data.
    pub private: Vec<u8>,
    /// A number of the program, 0 unless it sets one before it delivers the event.
    pub tag: usize,
}

/// The events of `rdma_cma.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The peer's address is resolved.
    AddrResolved,
    /// It could not be resolved.
    AddrError,
    /// The path to the peer is known.
    RouteResolved,
    /// A peer requests a connection with a listener.
    ConnectRequest,
    /// The peer has accepted, and the program must make its QP ready.
    ConnectResponse,
    /// This end could not make its QP ready.
    ConnectError,
    /// The peer does not answer, or does not have the datagram service.
    Unreachable,
    /// The peer has refused.
    Rejected,
    /// The connection is established, or the datagram service's QP is known.
    Established,
    /// The connection has ended.
    Disconnected,
    /// The group is joined.
    MulticastJoin,
    /// It could not be joined.
    MulticastError,
    /// The QP may be used for another connection.
    TimewaitExit,
}

/// Why an event reports a failure.
#[derive(Debug)]
pub enum Failure {
    /// The peer's reason for a rejection, or its status of a datagram service.
    Peer(u16),
    /// The peer does not answer.
    NoAnswer,
    /// A step of this end failed.
    Own(IdError),
}

/// The parameters of an event.
#[derive(Debug)]
pub enum EventData {
    /// Nothing.
    None,
    /// A peer's request.
    Request(Box<Request>),
    /// The peer's reply to this end's request.
    Reply(Box<Reply>),
    /// The path of datagrams to a QP or a group.
    Datagram {
        /// The path, from [`Event::handle`] on.
        path: Option<IdPath>,
        /// The QP; for a group, the number of all QPs.
        qpn: Qpn,
        /// The Q_Key that the datagrams must carry.
        qkey: QKey,
    },
}

//! IDs, each of which is one end of a connection, a listener, or a member of multicast groups, and their
//! events.

use super::channel::Channel;
use super::device::CmDevice;
use super::peer::Peer;
use super::queues::{NewCqs, Queue};
use super::sockaddr;
use crate::log;
use crate::objects::Unacknowledged;
use crate::prelude::*;
use roce_verbs::cm::PortClaim;
use roce_verbs::device::Gid;
use roce_verbs::roce_cm::{Agent, ConnectionId, Instant, ListenerId, PortSpace};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// An ID (`rdma_cm_id`). A thread that has locked its [`Inner`] may call the connection manager,
/// because the manager's callbacks lock the [`Inner`] of no existing ID.
#[repr(C)]
pub(super) struct Id {
    pub(super) c: CPart<RdmaCmId>,
    attached: Mutex<Attached>,
    /// Events that the program has not acknowledged yet.
    pub(super) unacknowledged: Arc<Unacknowledged>,
    pub(super) space: PortSpace,
    pub(super) is_datagram: bool,
    /// `RDMA_OPTION_ID_AFONLY`: whether `::` means IPv6 addresses only.
    pub(super) af_only: AtomicBool,
    /// Whether it represents a peer's request that the program has not accepted. As in the kernel, it
    /// has no events: the program may not know of it yet, and learns of a peer that has given up when
    /// it accepts.
    pub(super) awaits_accept: AtomicBool,
    pub(super) inner: Mutex<Inner>,
}

/// The channel of an ID's events.
struct Attached {
    channel: Arc<Channel<PendingEvent>>,
    /// The ID has been destroyed, and has no events any more. One in the queue would keep the ID and
    /// its channel for ever.
    is_gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// It is bound to a local address, or to all of them.
    Bound,
    /// The peer's address and the device are known.
    AddrResolved,
    /// The path is known, too.
    RouteResolved,
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

impl State {
    fn words(self) -> &'static str {
        match self {
            Self::Idle => "is new",
            Self::Bound => "is bound to a local address",
            Self::AddrResolved => "has its peer's address resolved (rdma_resolve_addr)",
            Self::RouteResolved => "has its route resolved (rdma_resolve_route)",
            Self::Listening => "listens",
            Self::Connecting => "waits for the peer's answer",
            Self::ReplyReceived => "has the peer's reply",
            Self::RequestReceived => "has a peer's request (RDMA_CM_EVENT_CONNECT_REQUEST)",
            Self::Connected => "is connected",
            Self::Closed => "has no connection any more",
        }
    }
}

/// The mutable part of an ID.
pub(super) struct Inner {
    pub(super) state: State,
    /// Whether each call waits for its event, because the program passed no channel.
    pub(super) sync: bool,
    pub(super) device: Option<Arc<CmDevice<Id>>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) claim: Option<PortClaim>,
    pub(super) listeners: Vec<(Arc<CmDevice<Id>>, ListenerId)>,
    pub(super) connection: Option<ConnectionId>,
    pub(super) peer: Peer,
    /// The RNR retry count that this end has sent to the peer, for the peer's QP.
    pub(super) peer_rnr_retry_count: Option<u8>,
    /// The starting PSN of the peer's send queue; for datagrams, that of this QP's.
    pub(super) psn: u32,
    pub(super) options: Options,
    /// The path record to which `rdma_cm_id.route` points.
    pub(super) path: Option<Box<SaPathRec>>,
    pub(super) endpoint: Option<Endpoint>,
    /// The private data to send if the program calls `rdma_connect` without parameters.
    pub(super) private: Vec<u8>,
    pub(super) groups: Vec<Group>,
    /// The CQs of its QP that the library created. The program may change the pointers in its part.
    pub(super) created_cqs: NewCqs,
    /// The CQ of its XRC SRQ, if the library created it.
    pub(super) srq_cq: Option<Queue>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) traffic_class: u8,
    pub(super) ack_timeout: Option<u8>,
}

/// The QP attributes for a listener's connections.
#[derive(Clone, Copy)]
pub(super) struct Endpoint(pub(super) IbvQpInitAttr);

// SAFETY: its pointers belong to the program, and are used only during calls of the program.
unsafe impl Send for Endpoint {}

pub(super) struct Group {
    pub(super) address: IpAddr,
    pub(super) gid: Gid,
    /// Whether the QP is attached to it.
    pub(super) attached: bool,
}

pub(super) struct IdParams {
    pub(super) channel: Arc<Channel<PendingEvent>>,
    pub(super) sync: bool,
    pub(super) context: *mut c_void,
    pub(super) space: PortSpace,
    pub(super) qp_type: u32,
}

/// The port space that a program requests.
///
/// # Errors
/// `EOPNOTSUPP` for IP over InfiniBand, `EPROTONOSUPPORT` for an unknown one.
pub(super) fn space(ps: u32) -> Result<PortSpace, Errno> {
    match ps {
        PS_TCP => Ok(PortSpace::Tcp),
        PS_UDP => Ok(PortSpace::Udp),
        PS_IB => Ok(PortSpace::Ib),
        PS_IPOIB => Err(with_reason(Errno::EOPNOTSUPP, || {
            "RDMA_PS_IPOIB needs IP over InfiniBand, which RoCE does not have".to_owned()
        })),
        _ => Err(with_reason(Errno::EPROTONOSUPPORT, || {
            format!("the port space is {ps:#x}, but must be RDMA_PS_TCP, RDMA_PS_UDP or RDMA_PS_IB")
        })),
    }
}

impl Id {
    /// An ID that C does not know yet.
    pub(super) fn new(params: IdParams) -> Result<Arc<Self>, Errno> {
        let mut c = RdmaCmId::zeroed();
        c.channel = params.channel.as_ptr();
        c.context = params.context;
        c.ps = match params.space {
            PortSpace::Udp => PS_UDP,
            PortSpace::Ib => PS_IB,
            _ => PS_TCP,
        };
        c.qp_type = params.qp_type;
        Ok(Arc::new(Self {
            c: CPart::new(c),
            attached: Mutex::new(Attached {
                channel: params.channel,
                is_gone: false,
            }),
            unacknowledged: Arc::default(),
            space: params.space,
            is_datagram: params.qp_type == QPT_UD,
            af_only: AtomicBool::new(false),
            awaits_accept: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                state: State::Idle,
                sync: params.sync,
                device: None,
                local: None,
                remote: None,
                claim: None,
                listeners: Vec::new(),
                connection: None,
                peer: Peer::default(),
                peer_rnr_retry_count: None,
                psn: random_psn()?,
                options: Options::default(),
                path: None,
                endpoint: None,
                private: Vec::new(),
                groups: Vec::new(),
                created_cqs: NewCqs::default(),
                srq_cq: None,
            }),
        }))
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaCmId {
        self.c.as_ptr()
    }

    pub(super) fn channel(&self) -> Arc<Channel<PendingEvent>> {
        Arc::clone(&self.attached.lock().channel)
    }

    /// Delivers an event of this ID, or of a connection that arrived at it. Returns whether the ID still
    /// exists.
    pub(super) fn push_event(&self, event: PendingEvent) -> bool {
        // Holding the lock prevents an event from reaching the channel after `move_to` or `leave`.
        let attached = self.attached.lock();
        if !attached.is_gone {
            attached.channel.push(event);
        }
        !attached.is_gone
    }

    /// Ends the ID's events, because it is destroyed. Returns those that the program has not got.
    pub(super) fn leave(&self) -> Vec<PendingEvent> {
        let mut attached = self.attached.lock();
        attached.is_gone = true;
        self.withdraw_from(&attached.channel)
    }

    /// Removes the ID's events.
    fn withdraw_from(&self, channel: &Channel<PendingEvent>) -> Vec<PendingEvent> {
        channel.withdraw(|event| std::ptr::eq(&*event.id, self))
    }

    /// Moves the ID to another channel, with its queued events.
    pub(super) fn move_to(&self, new: Arc<Channel<PendingEvent>>) {
        let mut attached = self.attached.lock();
        for event in self.withdraw_from(&attached.channel) {
            new.push(event);
        }
        self.c.set(|c| c.channel = new.as_ptr());
        attached.channel = new;
    }

    /// Updates the device and the addresses in the part that C sees.
    pub(super) fn update_c_part(&self, inner: &Inner) {
        self.c.set(|c| {
            if let Some(device) = &inner.device {
                let (context, pd) = device.handles();
                c.verbs = context;
                if c.pd.as_ptr().is_null() {
                    c.pd = pd;
                }
                c.port_num = 1;
            }
            if let Some(local) = inner.local {
                c.route.addr.src_storage = sockaddr::storage(local);
            }
            if let Some(remote) = inner.remote {
                c.route.addr.dst_storage = sockaddr::storage(remote);
            }
        });
    }
}

impl Inner {
    /// # Errors
    /// `EINVAL` unless the ID is in one of these states.
    pub(super) fn check(&self, states: &[State]) -> Result<(), Errno> {
        if states.contains(&self.state) {
            return Ok(());
        }
        Err(with_reason(Errno::EINVAL, || {
            let needed: Vec<_> = states.iter().map(|state| state.words()).collect();
            format!(
                "the ID {}; this call is for one that {}",
                self.state.words(),
                needed.join(", or ")
            )
        }))
    }

    /// # Errors
    /// `EINVAL` if its device is not known yet.
    pub(super) fn device(&self) -> Result<&Arc<CmDevice<Id>>, Errno> {
        self.device.as_ref().ok_or_else(|| {
            with_reason(Errno::EINVAL, || {
                "the ID has no device yet: bind it to an address, or resolve the peer's".to_owned()
            })
        })
    }

    /// Calls the agent of the connection manager about the ID's connection.
    ///
    /// # Errors
    /// `EINVAL` if it has none.
    pub(super) fn with_agent<R>(
        &self,
        call: impl FnOnce(&mut Agent, Instant, ConnectionId) -> R,
    ) -> Result<R, Errno> {
        let connection = self.connection.ok_or(Errno::EINVAL)?;
        let manager = &self.device()?.manager;
        Ok(manager.with(|agent, now| call(agent, now, connection)))
    }

    /// Stops listening on all devices.
    pub(super) fn stop_listening(&mut self) {
        for (device, listener) in std::mem::take(&mut self.listeners) {
            device.manager.stop_listening(listener);
            device.listeners.remove(&listener);
        }
    }

    /// Sends an RTU.
    pub(super) fn send_rtu(&self) -> Result<(), Errno> {
        let sent = self.with_agent(|agent, now, connection| agent.ready(now, connection, &[]));
        sent?.or_errno()
    }

    /// The addresses of both ends.
    ///
    /// # Errors
    /// `EINVAL` if they are not known.
    pub(super) fn ends(&self) -> Result<(SocketAddr, SocketAddr), Errno> {
        self.local.zip(self.remote).ok_or(Errno::EINVAL)
    }
}

/// 24 random bits.
fn random_psn() -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|_| Errno::EIO)?;
    Ok(u32::from_ne_bytes(bytes) >> 8)
}

pub(super) struct PendingEvent {
    /// The ID whose destruction waits for the acknowledgement. For a request, the listener.
    pub(super) id: Arc<Id>,
    /// For a request, the ID of the new connection.
    pub(super) child: Option<Arc<Id>>,
    pub(super) event: u32,
    pub(super) status: c_int,
    pub(super) data: EventData,
    /// The peer's parameters in a reply.
    pub(super) peer: Option<Peer>,
    pub(super) private: Vec<u8>,
    /// Why a step of this end failed, for `ROCE_WHY`.
    pub(super) reason: Option<String>,
}

/// The data of an event besides its type, without the private data.
#[derive(Clone, Copy, Default)]
pub(super) enum EventData {
    #[default]
    Empty,
    /// The peer's parameters of a connection, from this end's point of view.
    Connection(RdmaConnParam),
    /// The number and Q_Key of the QP of a datagram service.
    RemoteQp(u32, u32),
    /// The path of datagrams to a QP or group.
    Datagram(RdmaUdParam),
}

// SAFETY: its pointers are NULL or the program's context, which this library does not follow.
unsafe impl Send for EventData {}

impl PendingEvent {
    /// An event whose only data is a status.
    pub(super) fn plain(id: &Arc<Id>, event: u32, status: c_int) -> Self {
        Self {
            id: Arc::clone(id),
            child: None,
            event,
            status,
            data: EventData::Empty,
            peer: None,
            private: Vec::new(),
            reason: None,
        }
    }

    /// As [`PendingEvent::plain`], for a step that may have failed.
    pub(super) fn of(id: &Arc<Id>, result: Result<(), Errno>, good: u32, bad: u32) -> Self {
        match result {
            Ok(()) => Self::plain(id, good, 0),
            Err(errno) => Self {
                reason: log::take_reason(),
                ..Self::plain(id, bad, -(errno as c_int))
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A thread of the library may have found the ID before the program destroyed it.
    #[test]
    fn an_event_that_comes_too_late_is_dropped() {
        let channel = Channel::new().expect("a descriptor");
        let id = Id::new(IdParams {
            channel: Arc::clone(&channel),
            sync: false,
            context: std::ptr::null_mut(),
            space: PortSpace::Tcp,
            qp_type: QPT_RC,
        });
        let id = id.expect("an ID");
        let event = || PendingEvent::plain(&id, CM_EVENT_REJECTED, 0);
        assert!(id.push_event(event()) && !channel.is_empty());
        assert_eq!(id.leave().len(), 1);
        assert!(!id.push_event(event()) && channel.is_empty());
        assert_eq!(Arc::strong_count(&id), 1, "nothing keeps it");
    }

    /// A peer that can predict the PSN can forge packets of the connection.
    #[test]
    fn each_connection_draws_its_psn_from_24_bits() {
        let drawn: Vec<u32> = (0..64).map(|_| random_psn().expect("randomness")).collect();
        assert!(drawn.iter().all(|psn| *psn < 1 << 24), "{drawn:x?}");
        // The chance that this fails is less than one in 10^30.
        let different: BTreeSet<&u32> = drawn.iter().collect();
        assert!(different.len() > 56, "{drawn:x?}");
        let used = drawn.iter().fold(0, |bits, psn| bits | psn);
        assert_eq!(used, 0xff_ffff, "{drawn:x?}");
    }
}

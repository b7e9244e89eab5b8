//! IDs: one end of a connection, a listener, or a member of multicast groups.

use super::channel::Channel;
use super::device::CmDevice;
use super::event::PendingEvent;
use super::peer::Peer;
use super::qp::{NewCqs, Queue};
use super::sockaddr;
use super::table::table;
use crate::events::Unacknowledged;
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
    channel: Arc<Channel>,
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
    pub(super) device: Option<Arc<CmDevice>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) claim: Option<PortClaim>,
    pub(super) listeners: Vec<(Arc<CmDevice>, ListenerId)>,
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
    pub(super) channel: Arc<Channel>,
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

    pub(super) fn channel(&self) -> Arc<Channel> {
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
        attached.channel.withdraw(self)
    }

    /// Moves the ID to another channel, with its queued events.
    pub(super) fn move_to(&self, new: Arc<Channel>) {
        let mut attached = self.attached.lock();
        for event in attached.channel.withdraw(self) {
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
    pub(super) fn device(&self) -> Result<&Arc<CmDevice>, Errno> {
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

pub(super) fn find(id: *mut RdmaCmId) -> Result<Arc<Id>, Errno> {
    table()?.ids.find(id)
}

/// Creates an ID for C. Without a channel, each call waits for its event.
pub(super) fn create(
    channel: *mut RdmaEventChannel,
    context: *mut c_void,
    ps: u32,
    qp_type: u32,
) -> Result<Arc<Id>, Errno> {
    let table = table()?;
    let space = space(ps)?;
    let id = Id::new(IdParams {
        channel: table.channel_or_new(channel)?,
        sync: channel.is_null(),
        context,
        space,
        qp_type,
    })?;
    table.ids.add(Arc::clone(&id));
    Ok(id)
}

pub(crate) extern "C" fn create_id(
    channel: *mut RdmaEventChannel,
    id: Out<*mut RdmaCmId>,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    guard::minus_one("rdma_create_id", || {
        id.get()?;
        let qp_type = if ps == PS_UDP { QPT_UD } else { QPT_RC };
        id.put(create(channel, context, ps, qp_type)?.as_ptr())
    })
}

/// `rdma_migrate_id`. Waits until the events from the old channel are acknowledged.
pub(crate) extern "C" fn migrate_id(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> c_int {
    guard::minus_one("rdma_migrate_id", || {
        let id = find(id)?;
        let new = table()?.channel_or_new(channel)?;
        migrate(&id, new, channel.is_null())
    })
}

pub(super) fn migrate(id: &Arc<Id>, new: Arc<Channel>, sync: bool) -> Result<(), Errno> {
    let table = table()?;
    let old = id.channel();
    id.move_to(new);
    let was_sync = std::mem::replace(&mut id.inner.lock().sync, sync);
    if was_sync {
        super::event::acknowledge_sync_event(id)?;
        let _ = table.remove_channel(old.as_ptr());
    }
    id.wait_for_acknowledgements("rdma_migrate_id");
    Ok(())
}

/// `rdma_get_src_port`, in network order.
pub(crate) extern "C" fn get_src_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_src_port", 0, || {
        port(find(id)?.inner.lock().local)
    })
}

/// `rdma_get_dst_port`, in network order.
pub(crate) extern "C" fn get_dst_port(id: *mut RdmaCmId) -> u16 {
    guard::value("rdma_get_dst_port", 0, || {
        port(find(id)?.inner.lock().remote)
    })
}

fn port(address: Option<SocketAddr>) -> Result<u16, Errno> {
    Ok(address.map_or(0, |address| address.port()).to_be())
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

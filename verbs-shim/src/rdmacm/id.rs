//! IDs: one end of a connection, a listener, or a member of multicast groups.

use super::channel::Channel;
use super::device::CmDevice;
use super::event::Pending;
use super::peer::Peer;
use super::qp::Queue;
use super::sockaddr;
use super::table::table;
use crate::abi::*;
use crate::events::Unacknowledged;
use crate::guard;
use crate::pointer::{CPart, Out};
use nix::errno::Errno;
use parking_lot::Mutex;
use roce_verbs::cm::PortClaim;
use roce_verbs::device::Gid;
use roce_verbs::roce_cm::{ConnectionId, ListenerId, PortSpace};
use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An ID. A thread that has its [`Inner`] locked may call the connection manager; the manager's
/// callbacks take no such lock.
#[repr(C)]
pub(super) struct Id {
    pub(super) c: CPart<RdmaCmId>,
    channel: Mutex<Arc<Channel>>,
    /// Events that the program has not acknowledged yet.
    pub(super) unacknowledged: Arc<Unacknowledged>,
    pub(super) space: PortSpace,
    /// Whether it is for datagrams.
    pub(super) is_datagram: bool,
    /// Whether `::` means IPv6 addresses only.
    pub(super) one_family: AtomicBool,
    pub(super) inner: Mutex<Inner>,
}

/// The state of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// New.
    Idle,
    /// It is bound to a local address, or to all of them.
    Bound,
    /// The addresses of its peer and the device are known.
    Resolved,
    /// The path is known, too.
    Routed,
    Listening,
    /// It has requested a connection, or the QP of a datagram service.
    Connecting,
    /// The peer has accepted; this end must report that it is ready.
    Replied,
    /// It represents a connection that a peer has requested.
    Requested,
    /// It has accepted, or is connected.
    Connected,
    /// The connection is over, or was never established.
    Over,
}

/// The mutable part of an ID.
pub(super) struct Inner {
    pub(super) state: State,
    /// Whether each call waits for its event, because the program gave no channel.
    pub(super) sync: bool,
    pub(super) device: Option<Arc<CmDevice>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// The claim of its port.
    pub(super) claim: Option<PortClaim>,
    /// Its listeners, one for each device.
    pub(super) listeners: Vec<(Arc<CmDevice>, ListenerId)>,
    pub(super) connection: Option<ConnectionId>,
    pub(super) peer: Peer,
    /// The RNR retry count for the peer's QP, once this end has sent it to the peer.
    pub(super) rnr_retries_of_peer: Option<u8>,
    /// The first PSN that the peer sends; for datagrams, the first that this QP sends.
    pub(super) psn: u32,
    pub(super) options: Options,
    /// The path record that C's pointer refers to.
    pub(super) path: Option<Box<SaPathRec>>,
    pub(super) endpoint: Option<Endpoint>,
    /// The private data to send if the program calls `rdma_connect` without parameters.
    pub(super) private: Vec<u8>,
    pub(super) groups: Vec<Group>,
    /// Whether the library made its completion queues: for sending, for receiving.
    pub(super) own_cqs: [bool; 2],
    /// The completion queue of its XRC SRQ, if the library made it.
    pub(super) queue_of_srq: Option<Owned>,
}

/// The options that a program has set.
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

/// A completion queue that the library made, with its channel.
#[derive(Clone, Copy)]
pub(super) struct Owned(pub(super) Queue);

// SAFETY: objects of C, which any thread may use.
unsafe impl Send for Owned {}

/// A multicast group.
pub(super) struct Group {
    pub(super) address: IpAddr,
    pub(super) gid: Gid,
    /// Whether the QP is attached to it.
    pub(super) attached: bool,
}

/// The parameters of a new ID.
pub(super) struct New {
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
        PS_IPOIB => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EPROTONOSUPPORT),
    }
}

impl Id {
    /// An ID that C does not know yet.
    pub(super) fn new(new: New) -> Result<Arc<Self>, Errno> {
        let mut c = RdmaCmId::unset();
        c.channel = new.channel.as_ptr();
        c.context = new.context;
        c.ps = match new.space {
            PortSpace::Udp => PS_UDP,
            PortSpace::Ib => PS_IB,
            _ => PS_TCP,
        };
        c.qp_type = new.qp_type;
        Ok(Arc::new(Self {
            c: CPart::new(c),
            channel: Mutex::new(new.channel),
            unacknowledged: Arc::default(),
            space: new.space,
            is_datagram: new.qp_type == QPT_UD,
            one_family: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                state: State::Idle,
                sync: new.sync,
                device: None,
                local: None,
                remote: None,
                claim: None,
                listeners: Vec::new(),
                connection: None,
                peer: Peer::default(),
                rnr_retries_of_peer: None,
                psn: random_psn()?,
                options: Options::default(),
                path: None,
                endpoint: None,
                private: Vec::new(),
                groups: Vec::new(),
                own_cqs: [false; 2],
                queue_of_srq: None,
            }),
        }))
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaCmId {
        self.c.as_ptr()
    }

    /// The channel of its events.
    pub(super) fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.channel.lock())
    }

    /// Delivers an event of this ID, or of a connection that arrived at it.
    pub(super) fn push_event(&self, event: Pending) {
        // The lock is held, so that no event goes to the old channel after a change.
        let channel = self.channel.lock();
        channel.push(event);
    }

    /// Moves the ID to another channel, with its events that the program has not got yet.
    pub(super) fn move_to(&self, new: Arc<Channel>) {
        let mut channel = self.channel.lock();
        for event in channel.withdraw(self) {
            new.push(event);
        }
        self.c.set(|c| c.channel = new.as_ptr());
        *channel = new;
    }

    /// Updates the device and the addresses in the part that C sees.
    pub(super) fn show(&self, inner: &Inner) {
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
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// # Errors
    /// `EINVAL` if its device is not known yet.
    pub(super) fn device(&self) -> Result<&Arc<CmDevice>, Errno> {
        self.device.as_ref().ok_or(Errno::EINVAL)
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

/// The ID of a C pointer.
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
    let sync = channel.is_null();
    let channel = if sync {
        let own = Channel::new()?;
        table.channels.add(Arc::clone(&own));
        own
    } else {
        table.channels.find(channel)?
    };
    let id = Id::new(New {
        channel,
        sync,
        context,
        space,
        qp_type,
    })?;
    table.ids.add(Arc::clone(&id));
    Ok(id)
}

/// `rdma_create_id`.
pub(crate) extern "C" fn create_id(
    channel: *mut RdmaEventChannel,
    id: Out<*mut RdmaCmId>,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    guard::minus_one(|| {
        id.get()?;
        let qp_type = if ps == PS_UDP { QPT_UD } else { QPT_RC };
        id.put(create(channel, context, ps, qp_type)?.as_ptr())
    })
}

/// `rdma_migrate_id`. Waits until the events from the old channel are acknowledged.
pub(crate) extern "C" fn migrate_id(id: *mut RdmaCmId, channel: *mut RdmaEventChannel) -> c_int {
    guard::minus_one(|| {
        let table = table()?;
        let id = find(id)?;
        let sync = channel.is_null();
        let new = if sync {
            let own = Channel::new()?;
            table.channels.add(Arc::clone(&own));
            own
        } else {
            table.channels.find(channel)?
        };
        migrate(&id, new, sync)
    })
}

pub(super) fn migrate(id: &Arc<Id>, new: Arc<Channel>, sync: bool) -> Result<(), Errno> {
    let table = table()?;
    let old = id.channel();
    id.move_to(new);
    let was_sync = std::mem::replace(&mut id.inner.lock().sync, sync);
    if was_sync {
        super::event::acknowledge_own(id)?;
        let _ = table.channels.remove(old.as_ptr());
    }
    id.unacknowledged.wait_for_all();
    Ok(())
}

/// `rdma_get_src_port`, in network order.
pub(crate) extern "C" fn get_src_port(id: *mut RdmaCmId) -> u16 {
    guard::value(0, || port(find(id)?.inner.lock().local))
}

/// `rdma_get_dst_port`, in network order.
pub(crate) extern "C" fn get_dst_port(id: *mut RdmaCmId) -> u16 {
    guard::value(0, || port(find(id)?.inner.lock().remote))
}

fn port(address: Option<SocketAddr>) -> Result<u16, Errno> {
    Ok(address.map_or(0, |address| address.port()).to_be())
}

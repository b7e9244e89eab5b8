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

/// An ID. Who has its [`Inner`] locked may call the connection manager; what the manager
/// tells takes no such lock.
#[repr(C)]
pub(super) struct Id {
    pub(super) c: CPart<RdmaCmId>,
    channel: Mutex<Arc<Channel>>,
    /// Events that the program has still to acknowledge.
    pub(super) unacknowledged: Arc<Unacknowledged>,
    pub(super) space: PortSpace,
    /// Whether it is for datagrams.
    pub(super) is_datagram: bool,
    /// Whether `::` stands for addresses of IPv6 only.
    pub(super) one_family: AtomicBool,
    pub(super) inner: Mutex<Inner>,
}

/// What an ID is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is new.
    Idle,
    /// It has a local address, or all of them.
    Bound,
    /// It knows the address of its peer, and by which device it is reached.
    Resolved,
    /// It knows the path, too.
    Routed,
    Listening,
    /// It has asked for a connection, or for the QP of a datagram service.
    Connecting,
    /// The peer has accepted; it is for this end to say that it is ready.
    Replied,
    /// A peer has asked for it.
    Requested,
    /// It has accepted, or is connected.
    Connected,
    /// The connection is over, or never came to be.
    Over,
}

/// What is known of an ID.
pub(super) struct Inner {
    pub(super) state: State,
    /// Whether each call waits for its event.
    pub(super) sync: bool,
    pub(super) device: Option<Arc<CmDevice>>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// Its port.
    pub(super) claim: Option<PortClaim>,
    /// Where it listens.
    pub(super) listeners: Vec<(Arc<CmDevice>, ListenerId)>,
    pub(super) connection: Option<ConnectionId>,
    pub(super) peer: Peer,
    /// How often the peer repeats after RNR NAKs, once this end has asked it to.
    pub(super) rnr_retries_of_peer: Option<u8>,
    /// The first PSN that it sends.
    pub(super) psn: u32,
    pub(super) options: Options,
    /// What C's pointer to the path points to.
    pub(super) path: Option<Box<SaPathRec>>,
    pub(super) endpoint: Option<Endpoint>,
    /// Private data for a connection without parameters.
    pub(super) private: Vec<u8>,
    pub(super) groups: Vec<Group>,
    /// Whether its completion queues are the library's: for sending, for receiving.
    pub(super) own_cqs: [bool; 2],
    /// The completion queue of its SRQ for XRC, if that is the library's.
    pub(super) queue_of_srq: Option<Owned>,
}

/// What a program has set.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) traffic_class: u8,
    pub(super) ack_timeout: Option<u8>,
}

/// What the QPs of a listener's connections are made with.
#[derive(Clone, Copy)]
pub(super) struct Endpoint(pub(super) IbvQpInitAttr);

// SAFETY: its pointers are the program's, for calls of the program.
unsafe impl Send for Endpoint {}

/// A completion queue of the library's, with its channel.
#[derive(Clone, Copy)]
pub(super) struct Owned(pub(super) Queue);

// SAFETY: objects of C, which any thread may use.
unsafe impl Send for Owned {}

/// A multicast group.
pub(super) struct Group {
    pub(super) address: IpAddr,
    pub(super) gid: Gid,
    /// Whether the QP was attached to it.
    pub(super) attached: bool,
}

/// What a new ID is to be.
pub(super) struct New {
    pub(super) channel: Arc<Channel>,
    pub(super) sync: bool,
    pub(super) context: *mut c_void,
    pub(super) space: PortSpace,
    pub(super) qp_type: u32,
}

/// The port space that a program asks for.
///
/// # Errors
/// `EOPNOTSUPP` for IP over InfiniBand, `EPROTONOSUPPORT` for what nobody knows.
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
    /// An ID that C knows nothing of yet.
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

    /// What C sees of it.
    pub(super) fn as_ptr(&self) -> *mut RdmaCmId {
        self.c.as_ptr()
    }

    /// Where its events go.
    pub(super) fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.channel.lock())
    }

    /// An event of this ID, or of a connection that this one listens for.
    pub(super) fn tell(&self, event: Pending) {
        // Held, so that none is left behind when the ID changes its channel.
        let channel = self.channel.lock();
        channel.push(event);
    }

    /// Its events go to another channel, those that nobody has taken yet, too.
    pub(super) fn move_to(&self, new: Arc<Channel>) {
        let mut channel = self.channel.lock();
        for event in channel.withdraw(self) {
            new.push(event);
        }
        self.c.set(|c| c.channel = new.as_ptr());
        *channel = new;
    }

    /// Says by which device, from where and where to it goes.
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
    /// `EINVAL` if it is not known by which device it goes.
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

/// The ID that C means.
pub(super) fn find(id: *mut RdmaCmId) -> Result<Arc<Id>, Errno> {
    table()?.ids.find(id)
}

/// Makes an ID one of C's; without a channel, each call waits for its event.
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

/// `rdma_migrate_id`. Waits until the events that came by the old channel are acknowledged.
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

/// `rdma_get_src_port`, in the order of the network.
pub(crate) extern "C" fn get_src_port(id: *mut RdmaCmId) -> u16 {
    guard::value(0, || port(find(id)?.inner.lock().local))
}

/// `rdma_get_dst_port`, in the order of the network.
pub(crate) extern "C" fn get_dst_port(id: *mut RdmaCmId) -> u16 {
    guard::value(0, || port(find(id)?.inner.lock().remote))
}

fn port(address: Option<SocketAddr>) -> Result<u16, Errno> {
    Ok(address.map_or(0, |address| address.port()).to_be())
}

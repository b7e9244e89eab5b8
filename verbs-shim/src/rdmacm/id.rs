//! IDs as C sees them.

use super::channel::Channel;
use super::device::CmDevice;
use super::queues::{NewCqs, Queue};
use super::sockaddr;
use crate::convert::{c_gid, qp_kind};
use crate::prelude::*;
use roce_verbs::rdma_cm::{self, HOP_LIMIT};
use roce_verbs::roce_cm::PortSpace;

/// The only partition.
const PKEY: u16 = 0xffff;

/// The packet lifetime in the path record: 4.096 µs × 2^`LIFETIME`.
const LIFETIME: u8 = 16;

/// The selector "exactly" of a value in a path record.
const EXACTLY: u8 = 2;

/// An ID (`rdma_cm_id`).
#[repr(C)]
pub(super) struct Id {
    pub(super) c: CPart<RdmaCmId>,
    pub(super) cm: Arc<rdma_cm::Id>,
    pub(super) own: Mutex<Own>,
}

/// The part of C's ID that the Rust ID does not have.
#[derive(Default)]
pub(super) struct Own {
    /// The channel of an ID for which the program passed none: each call waits for its event.
    pub(super) sync_channel: Option<Arc<Channel>>,
    /// The path record to which `rdma_cm_id.route` points.
    path: Option<Box<SaPathRec>>,
    pub(super) endpoint: Option<Endpoint>,
    /// The private data to send if the program calls `rdma_connect` without parameters.
    pub(super) private: Vec<u8>,
    /// The CQs of its QP that the library created. The program may change the pointers in its part.
    pub(super) created_cqs: NewCqs,
    /// The CQ of its XRC SRQ, if the library created it.
    pub(super) srq_cq: Option<Queue>,
}

/// The QP attributes for a listener's connections.
#[derive(Clone, Copy)]
pub(super) struct Endpoint(pub(super) IbvQpInitAttr);

// SAFETY: its pointers belong to the program, and are used only during calls of the program.
unsafe impl Send for Endpoint {}

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
    /// An ID that a program creates. Without a channel of its own, each call waits for its event.
    pub(super) fn create(
        channel: &Arc<Channel>,
        is_sync: bool,
        context: *mut c_void,
        ps: u32,
        qp_type: u32,
    ) -> Result<Arc<Self>, Errno> {
        let queue = Arc::clone(&channel.queue);
        let cm = rdma_cm::Id::new(queue, space(ps)?, qp_kind(qp_type)?).or_errno()?;
        let mut c = RdmaCmId::zeroed();
        (c.channel, c.context, c.ps, c.qp_type) = (channel.as_ptr(), context, ps, qp_type);
        let id = Self::new(cm, c);
        id.own.lock().sync_channel = is_sync.then(|| Arc::clone(channel));
        Ok(id)
    }

    /// The ID of a connection that a peer has requested.
    pub(super) fn of_request(cm: Arc<rdma_cm::Id>, listener: &Self) -> Arc<Self> {
        let mut c = RdmaCmId::zeroed();
        let of = listener.c.get();
        (c.channel, c.context, c.ps, c.qp_type) = (of.channel, of.context, of.ps, of.qp_type);
        Self::new(cm, c)
    }

    fn new(cm: Arc<rdma_cm::Id>, c: RdmaCmId) -> Arc<Self> {
        let id = Arc::new(Self {
            c: CPart::new(c),
            cm,
            own: Mutex::default(),
        });
        id.cm.set_owner(Arc::<Self>::downgrade(&id));
        id
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaCmId {
        self.c.as_ptr()
    }

    pub(super) fn is_sync(&self) -> bool {
        self.own.lock().sync_channel.is_some()
    }

    /// Updates the device and the addresses in the part that C sees.
    pub(super) fn update_c_part(&self, device: Option<&CmDevice>) {
        let (local, remote) = self.cm.addresses();
        self.c.set(|c| {
            if let Some(device) = device {
                c.verbs = device.context;
                if c.pd.as_ptr().is_null() {
                    c.pd = device.pd;
                }
                c.port_num = 1;
            }
            if let Some(local) = local {
                c.route.addr.src_storage = sockaddr::storage(local);
            }
            if let Some(remote) = remote {
                c.route.addr.dst_storage = sockaddr::storage(remote);
            }
        });
    }

    /// Sets the path record in the part that C sees.
    ///
    /// # Errors
    /// `EINVAL` if the path is not known.
    pub(super) fn fill_route(&self) -> Result<(), Errno> {
        let (local, remote) = self.cm.addresses();
        let (local, remote) = local.zip(remote).ok_or(Errno::EINVAL)?;
        let record = SaPathRec {
            dgid: c_gid(remote.ip().into()),
            sgid: c_gid(local.ip().into()),
            hop_limit: HOP_LIMIT,
            traffic_class: self.cm.traffic_class(),
            reversible: 1,
            numb_path: 1,
            pkey: PKEY.to_be(),
            mtu_selector: EXACTLY,
            mtu: self.cm.path_mtu().or_errno()?.code(),
            rate_selector: EXACTLY,
            packet_life_time_selector: EXACTLY,
            packet_life_time: LIFETIME,
            ..Zero::zeroed()
        };
        let mut own = self.own.lock();
        let record = own.path.insert(Box::new(record));
        let part = std::ptr::from_mut(&mut **record);
        self.c.set(|c| {
            c.route.path_rec = part;
            c.route.num_paths = 1;
        });
        Ok(())
    }
}

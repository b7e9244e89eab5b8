//! The attributes of a device and its port, and its tables of GIDs and partition keys.

use crate::convert::c_gid;
use crate::cq::MAX_CQE;
use crate::device::c_text;
use crate::prelude::*;
use crate::state::{Context, check_port};
use roce_verbs::device::{LimitedObject, QpnRange, RoceVersion};
use roce_verbs::qp::{MAX_QUEUE_DEPTH, MAX_RD_ATOMIC, MAX_SRQS};
use roce_verbs::settings::environment_vendor_part_id;
use roce_verbs::work::{MAX_MESSAGE_BYTES, MAX_SGE};

/// The number of GIDs that an index of 8 bits can address.
const GID_TABLE_LEN: u32 = 256;

/// The default partition, of which every port is a full member.
const DEFAULT_PKEY: u16 = 0xffff;

/// A vendor ID that is assigned to no organisation. It is not 0, which programs interpret as an ID
/// that the driver does not know.
const NO_VENDOR: u32 = 0x00ff_ffff;

/// The reported maximum of resources that only memory and the operating system limit.
const MANY: c_int = 1 << 20;

fn device_attr(context: &Context) -> Result<IbvDeviceAttr, Errno> {
    let guid = context.state.device.get()?.guid.to_be();
    let depth = int(MAX_QUEUE_DEPTH);
    let sges = int(MAX_SGE);
    let fetches = int(MAX_RD_ATOMIC);
    Ok(IbvDeviceAttr {
        fw_ver: c_text(env!("CARGO_PKG_VERSION")),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: NO_VENDOR,
        vendor_part_id: environment_vendor_part_id().or_errno()?,
        max_qp: int(QpnRange::MAX_QPS),
        max_qp_wr: depth,
        device_cap_flags: DEVICE_CURR_QP_STATE_MOD
            | DEVICE_PORT_ACTIVE_EVENT
            | DEVICE_SYS_IMAGE_GUID
            | DEVICE_RC_RNR_NAK_GEN
            | DEVICE_SRQ_RESIZE
            | DEVICE_MEM_WINDOW
            | DEVICE_XRC
            | DEVICE_MEM_WINDOW_TYPE_2B,
        max_sge: sges,
        max_sge_rd: sges,
        max_cq: int(LimitedObject::CompletionQueue.max()),
        max_cqe: int(MAX_CQE),
        max_mr: int(LimitedObject::MemoryRegion.max()),
        max_pd: int(LimitedObject::ProtectionDomain.max()),
        max_qp_rd_atom: fetches,
        max_res_rd_atom: MANY,
        max_qp_init_rd_atom: fetches,
        atomic_cap: ATOMIC_HCA,
        max_mw: int(LimitedObject::MemoryWindow.max()),
        max_mcast_grp: MANY,
        max_mcast_qp_attach: MANY,
        max_total_mcast_qp_attach: MANY,
        max_ah: int(LimitedObject::AddressHandle.max()),
        max_srq: int(MAX_SRQS),
        max_srq_wr: depth,
        max_srq_sge: sges,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..Zero::zeroed()
    })
}

pub(crate) extern "C" fn query_device(
    context: Handle<IbvContext>,
    attr: Out<IbvDeviceAttr>,
) -> c_int {
    guard::errno("ibv_query_device", || {
        attr.put(device_attr(context.get()?)?)
    })
}

/// `ibv_query_device_ex`, for a caller whose structure has `size` bytes.
pub(crate) extern "C" fn query_device_ex(
    context: Handle<IbvContext>,
    input: In<u32>,
    attr: Out<IbvDeviceAttrEx>,
    size: usize,
) -> c_int {
    guard::errno("ibv_query_device_ex", || {
        if !input.is_null() && input.read()? != 0 || size < size_of::<IbvDeviceAttr>() {
            return Err(Errno::EINVAL);
        }
        // A forked child may allocate device memory, and queries the device first. The query needs
        // no NIC.
        let orig_attr = device_attr(context.get_of_any_process()?)?;
        // On-demand regions work for sends, for receives and for SRQ receives.
        let odp = ODP_SUPPORT_SEND | ODP_SUPPORT_RECV | ODP_SUPPORT_SRQ_RECV;
        let rc_odp = odp
            | ODP_SUPPORT_WRITE
            | ODP_SUPPORT_READ
            | ODP_SUPPORT_ATOMIC
            | ODP_SUPPORT_FLUSH
            | ODP_SUPPORT_ATOMIC_WRITE;
        let known = IbvDeviceAttrEx {
            device_cap_flags_ex: u64::from(orig_attr.device_cap_flags) | PLACEMENT,
            orig_attr,
            odp_caps: IbvOdpCaps {
                general_caps: (ODP_SUPPORT | ODP_SUPPORT_IMPLICIT).into(),
                rc_odp_caps: rc_odp,
                uc_odp_caps: ODP_SUPPORT_SEND | ODP_SUPPORT_RECV | ODP_SUPPORT_WRITE,
                ud_odp_caps: odp,
            },
            completion_timestamp_mask: u64::MAX,
            hca_core_clock: CLOCK_KHZ,
            qp_rate_limit_min: 1,
            qp_rate_limit_max: u32::MAX,
            qp_rate_limit_qpts: EVERY_SERVICE,
            max_cq_count: u16::MAX,
            max_cq_period: u16::MAX,
            max_dm_size: roce_verbs::memory::MAX_DEVICE_MEMORY_BYTES as u64,
            xrc_odp_caps: rc_odp,
            phys_port_cnt_ex: 1,
            ..Zero::zeroed()
        };
        attr.put_prefix(&known, size)
    })
}

/// The bits 38 to 40 of the kernel's `ib_uverbs_device_cap_flags`: FLUSH to global visibility and to
/// persistence, and ATOMIC WRITE. Programs pass them on without a name of verbs.h.
const PLACEMENT: u64 = 0b111 << 38;

const EVERY_SERVICE: u32 =
    1 << QPT_RC | 1 << QPT_UC | 1 << QPT_UD | 1 << QPT_XRC_SEND | 1 << QPT_XRC_RECV;

/// The device's clock counts nanoseconds.
const CLOCK_KHZ: u64 = 1_000_000;

/// `ibv_query_rt_values_ex`. As in other drivers, the whole raw clock is in `tv_nsec`: it counts
/// ticks of the clock, which are nanoseconds here.
pub(crate) extern "C" fn query_rt_values(
    context: Handle<IbvContext>,
    values: Out<IbvValuesEx>,
) -> c_int {
    guard::errno("ibv_query_rt_values", || {
        let roce = &context.get()?.state.roce;
        let comp_mask = values.input().read()?.comp_mask;
        check_bits(
            "comp_mask",
            comp_mask,
            VALUES_MASK_RAW_CLOCK,
            Errno::EOPNOTSUPP,
        )?;
        if comp_mask & VALUES_MASK_RAW_CLOCK == 0 {
            return Ok(());
        }
        let ticks = i64::try_from(roce.clock_ns()).map_err(|_| Errno::EOVERFLOW)?;
        values.put(IbvValuesEx {
            comp_mask,
            raw_clock: libc::timespec {
                tv_sec: 0,
                tv_nsec: ticks,
            },
        })
    })
}

/// The reported link width and speed: 4 lanes of 25 Gb/s. A software NIC has no speed of its own.
const WIDTH_4X: u8 = 2;
const SPEED_EDR: u8 = 32;

/// `LinkUp` and `Disabled` of IBTA 1.7, 14.2.5.6.
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;

fn port_attr(context: &Context) -> Result<IbvPortAttr, Errno> {
    let device = context.state.roce.device();
    let is_up = device.is_running() && !context.state.roce.is_cut_off();
    let (state, phys_state) = if is_up {
        (PORT_ACTIVE, PHYS_LINK_UP)
    } else {
        (PORT_DOWN, PHYS_DISABLED)
    };
    Ok(IbvPortAttr {
        state,
        max_mtu: MTU_4096,
        active_mtu: device.active_mtu().code().into(),
        gid_tbl_len: int(GID_TABLE_LEN),
        port_cap_flags: PORT_IP_BASED_GIDS,
        max_msg_sz: u32::try_from(MAX_MESSAGE_BYTES).unwrap_or(u32::MAX),
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        phys_state,
        link_layer: u8::try_from(LINK_LAYER_ETHERNET).unwrap_or_default(),
        ..Zero::zeroed()
    })
}

/// `ibv_query_port`, for a caller whose structure has `size` bytes.
pub(crate) extern "C" fn query_port(
    context: Handle<IbvContext>,
    port: u8,
    attr: Out<IbvPortAttr>,
    size: usize,
) -> c_int {
    guard::errno("ibv_query_port", || {
        check_port(port.into())?;
        attr.put_prefix(&port_attr(context.get()?)?, size)
    })
}

/// The speed of a lane, in units of 100 Mb/s.
const LANE_SPEED: u64 = 250;
/// The number of lanes, according to [`WIDTH_4X`].
const LANES: u64 = 4;

/// `ibv_query_port_speed`, in units of 100 Mb/s: the product of width and speed in
/// `ibv_query_port`.
pub(crate) extern "C" fn query_port_speed(
    context: Handle<IbvContext>,
    port: u32,
    speed: Out<u64>,
) -> c_int {
    guard::errno("ibv_query_port_speed", || {
        context.get()?;
        check_port(port)?;
        speed.put(LANES * LANE_SPEED)
    })
}

/// The exported function `ibv_query_port`, for programs whose structure ends before `link_layer`.
/// Newer headers call [`query_port`] through the context instead.
pub(crate) extern "C" fn query_port_short(
    context: Handle<IbvContext>,
    port: u8,
    attr: Out<IbvPortAttr>,
) -> c_int {
    let size = std::mem::offset_of!(IbvPortAttr, link_layer);
    query_port(context, port, attr, size)
}

/// An entry of the GID table; `None` if it is empty.
fn gid_entry(
    context: &Context,
    port: u32,
    index: u32,
) -> Result<Option<roce_verbs::device::GidEntry>, Errno> {
    check_port(port)?;
    if index >= GID_TABLE_LEN {
        return Err(with_reason(Errno::EINVAL, || {
            format!("the index is {index}, but the GID table has {GID_TABLE_LEN} entries")
        }));
    }
    let gids = context.state.roce.gids();
    Ok(gids
        .into_iter()
        .find(|entry| u32::from(entry.index) == index))
}

/// `ibv_query_gid`: zeros for an empty entry.
pub(crate) extern "C" fn query_gid(
    context: Handle<IbvContext>,
    port: u8,
    index: c_int,
    gid: Out<[u8; 16]>,
) -> c_int {
    guard::minus_one("ibv_query_gid", || {
        let index = u32::try_from(index).map_err(|_| Errno::EINVAL)?;
        let entry = gid_entry(context.get()?, port.into(), index)?;
        gid.put(entry.map_or([0; 16], |entry| entry.gid.0))
    })
}

fn c_entry(context: &Context, entry: &roce_verbs::device::GidEntry) -> Result<IbvGidEntry, Errno> {
    Ok(IbvGidEntry {
        gid: c_gid(entry.gid),
        gid_index: entry.index.into(),
        port_num: 1,
        gid_type: match entry.version {
            RoceVersion::V1 => GID_TYPE_ROCE_V1,
            RoceVersion::V2 => GID_TYPE_ROCE_V2,
        },
        ndev_ifindex: context.state.device.get()?.index,
    })
}

pub(crate) extern "C" fn query_gid_ex(
    context: Handle<IbvContext>,
    port: u32,
    index: u32,
    to: Out<IbvGidEntry>,
    flags: u32,
    size: usize,
) -> c_int {
    guard::errno("ibv_query_gid_ex", || {
        let context = context.get()?;
        if flags != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let entry = gid_entry(context, port, index)?.ok_or(Errno::ENODATA)?;
        to.put_prefix(&c_entry(context, &entry)?, size)
    })
}

/// `ibv_query_gid_table`: returns the number of entries, or the negative error number.
pub(crate) extern "C" fn query_gid_table(
    context: Handle<IbvContext>,
    to: Out<IbvGidEntry>,
    max: usize,
    flags: u32,
    size: usize,
) -> isize {
    let found = guard::value("ibv_query_gid_table", None, || {
        let context = context.get()?;
        if flags != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let gids = context.state.roce.gids();
        // As with the kernel's interface, the size must fit in 16 bits.
        let sizes = size_of::<IbvGidEntry>()..=usize::from(u16::MAX);
        if gids.len() > max || !sizes.contains(&size) {
            return Err(Errno::EINVAL);
        }
        for (index, entry) in gids.iter().enumerate() {
            let to = Out::at(to, index * size);
            to.put_prefix(&c_entry(context, entry)?, size)?;
        }
        Ok(isize::try_from(gids.len()).ok())
    });
    found.unwrap_or(-(Errno::last() as isize))
}

/// `ibv_query_gid_type`, which is internal to rdma-core.
pub(crate) extern "C" fn query_gid_type(
    context: Handle<IbvContext>,
    port: u8,
    index: u32,
    kind: Out<u32>,
) -> c_int {
    guard::minus_one("ibv_query_gid_type", || {
        let entry = gid_entry(context.get()?, port.into(), index)?;
        let version = entry.map_or(RoceVersion::V2, |entry| entry.version);
        kind.put(match version {
            RoceVersion::V1 => GID_TYPE_SYSFS_IB_ROCE_V1,
            RoceVersion::V2 => GID_TYPE_SYSFS_ROCE_V2,
        })
    })
}

/// `ibv_query_pkey`, in network order.
pub(crate) extern "C" fn query_pkey(
    context: Handle<IbvContext>,
    port: u8,
    index: c_int,
    pkey: Out<u16>,
) -> c_int {
    guard::minus_one("ibv_query_pkey", || {
        context.get()?;
        check_port(port.into())?;
        if index != 0 {
            return Err(with_reason(Errno::EINVAL, || {
                format!("the index is {index}, but the device has only one P_Key, at index 0")
            }));
        }
        pkey.put(DEFAULT_PKEY.to_be())
    })
}

pub(crate) extern "C" fn get_pkey_index(context: Handle<IbvContext>, port: u8, pkey: u16) -> c_int {
    guard::minus_one("ibv_get_pkey_index", || {
        context.get()?;
        check_port(port.into())?;
        if u16::from_be(pkey) == DEFAULT_PKEY {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    })
}

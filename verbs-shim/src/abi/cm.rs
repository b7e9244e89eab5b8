//! The structures and constants of `rdma_cma.h`, and those of `sa.h` that it uses.

use super::layout::{c_constants, c_structs};
use super::{Constant, IbvAhAttr, IbvCompChannel, IbvContext, IbvCq, IbvPd, IbvQp, IbvSrq, Layout};
use crate::pointer::{Handle, In, Text};
use std::ffi::{c_int, c_void};

/// `struct sockaddr_storage`.
pub(crate) type Storage = [u64; 16];

c_structs! {
    "rdma_ib_addr" => RdmaIbAddr {
        sgid: [u64; 2],
        dgid: [u64; 2],
        pkey: u16,
    }

    "rdma_addr" => RdmaAddr {
        src_storage: Storage,
        dst_storage: Storage,
        ibaddr as "addr.ibaddr": RdmaIbAddr,
    }

    "rdma_route" => RdmaRoute {
        addr: RdmaAddr,
        path_rec: *mut SaPathRec,
        num_paths: c_int,
    }

    "rdma_event_channel" => RdmaEventChannel {
        fd: c_int,
    }

    "rdma_cm_id" => RdmaCmId {
        verbs: Handle<IbvContext>,
        channel: *mut RdmaEventChannel,
        context: *mut c_void,
        qp: Handle<IbvQp>,
        route: RdmaRoute,
        ps: u32,
        port_num: u8,
        event: *mut RdmaCmEvent,
        send_cq_channel: Handle<IbvCompChannel>,
        send_cq: Handle<IbvCq>,
        recv_cq_channel: Handle<IbvCompChannel>,
        recv_cq: Handle<IbvCq>,
        srq: Handle<IbvSrq>,
        pd: Handle<IbvPd>,
        qp_type: u32,
    }

    "rdma_conn_param" => RdmaConnParam {
        private_data: In<u8>,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }

    "rdma_ud_param" => RdmaUdParam {
        // For a joined group, the program's context.
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: IbvAhAttr,
        qp_num: u32,
        qkey: u32,
    }

    "rdma_cm_event" => RdmaCmEvent {
        id: *mut RdmaCmId,
        listen_id: *mut RdmaCmId,
        event: u32,
        status: c_int,
        param: RdmaParam,
    }

    "rdma_addrinfo" => RdmaAddrinfo {
        ai_flags: c_int,
        ai_family: c_int,
        ai_qp_type: c_int,
        ai_port_space: c_int,
        ai_src_len: u32,
        ai_dst_len: u32,
        ai_src_addr: In<u8>,
        ai_dst_addr: In<u8>,
        ai_src_canonname: Text,
        ai_dst_canonname: Text,
        ai_route_len: usize,
        ai_route: *mut c_void,
        ai_connect_len: usize,
        ai_connect: In<u8>,
        ai_next: *mut RdmaAddrinfo,
    }

    "rdma_cm_join_mc_attr_ex" => RdmaJoinMcAttrEx {
        comp_mask: u32,
        join_flags: u32,
        addr: In<u8>,
    }

    "ibv_sa_path_rec" => SaPathRec {
        dgid: [u64; 2],
        sgid: [u64; 2],
        dlid: u16,
        slid: u16,
        raw_traffic: c_int,
        flow_label: u32,
        hop_limit: u8,
        traffic_class: u8,
        reversible: c_int,
        numb_path: u8,
        pkey: u16,
        sl: u8,
        mtu_selector: u8,
        mtu: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }

    // The names of fields of several values are joined, as in C.
    "ibv_path_record" => IbvPathRecord {
        service_id: u64,
        dgid: [u64; 2],
        sgid: [u64; 2],
        dlid: u16,
        slid: u16,
        flowlabel_hoplimit: u32,
        tclass: u8,
        reversible_numpath: u8,
        pkey: u16,
        qosclass_sl: u16,
        mtu: u8,
        rate: u8,
        packetlifetime: u8,
        preference: u8,
        reserved: [u8; 6],
    }

    "ibv_path_data" => IbvPathData {
        flags: u32,
        reserved: u32,
        path: IbvPathRecord,
    }
}

/// The data of an event besides its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union RdmaParam {
    pub(crate) conn: RdmaConnParam,
    pub(crate) ud: RdmaUdParam,
}

c_constants! { "RDMA_" CONSTANTS:
    CM_EVENT_ADDR_RESOLVED = 0,
    CM_EVENT_ADDR_ERROR = 1,
    CM_EVENT_ROUTE_RESOLVED = 2,
    CM_EVENT_CONNECT_REQUEST = 4,
    CM_EVENT_CONNECT_RESPONSE = 5,
    CM_EVENT_CONNECT_ERROR = 6,
    CM_EVENT_UNREACHABLE = 7,
    CM_EVENT_REJECTED = 8,
    CM_EVENT_ESTABLISHED = 9,
    CM_EVENT_DISCONNECTED = 10,
    CM_EVENT_MULTICAST_JOIN = 12,
    CM_EVENT_MULTICAST_ERROR = 13,
    CM_EVENT_TIMEWAIT_EXIT = 15,
    PS_IPOIB = 0x0002,
    PS_TCP = 0x0106,
    PS_UDP = 0x0111,
    PS_IB = 0x013f,
    UDP_QKEY = 0x0123_4567,
    CM_JOIN_MC_ATTR_ADDRESS = 1,
    CM_JOIN_MC_ATTR_JOIN_FLAGS = 2,
    MC_JOIN_FLAG_FULLMEMBER = 0,
    MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
    OPTION_ID = 0,
    OPTION_ID_TOS = 0,
    OPTION_ID_REUSEADDR = 1,
    OPTION_ID_AFONLY = 2,
    OPTION_ID_ACK_TIMEOUT = 3,
}

/// Flags of `struct rdma_addrinfo`.
pub(crate) mod rai {
    pub(crate) const PASSIVE: i32 = 1;
    pub(crate) const NUMERICHOST: i32 = 2;
    pub(crate) const FAMILY: i32 = 8;
}

/// The layouts and constants of `rdma_cma.h`. The header includes `verbs.h`, so these come in
/// addition to [`layouts`](super::layouts) and [`constants`](super::constants).
pub fn cm() -> (&'static [Layout], &'static [Constant]) {
    (LAYOUTS, CONSTANTS)
}

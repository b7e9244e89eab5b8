//! Structures for creating, modifying and querying objects.

use super::layout::c_structs;
use super::{IbvCompChannel, IbvCq, IbvPd, IbvSrq, IbvTd, IbvXrcd};
use crate::pointer::Handle;
use std::ffi::{c_char, c_int, c_void};

c_structs! {
    "ibv_device_attr" => IbvDeviceAttr {
        fw_ver: [c_char; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: u32,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: u32,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }

    "ibv_odp_caps" => IbvOdpCaps {
        general_caps: u64,
        rc_odp_caps as "per_transport_caps.rc_odp_caps": u32,
        uc_odp_caps as "per_transport_caps.uc_odp_caps": u32,
        ud_odp_caps as "per_transport_caps.ud_odp_caps": u32,
    }

    "ibv_device_attr_ex" => IbvDeviceAttrEx {
        orig_attr: IbvDeviceAttr,
        comp_mask: u32,
        odp_caps: IbvOdpCaps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        max_tso as "tso_caps.max_tso": u32,
        tso_supported_qpts as "tso_caps.supported_qpts": u32,
        rss_caps: [u64; 4],
        max_wq_type_rq: u32,
        qp_rate_limit_min as "packet_pacing_caps.qp_rate_limit_min": u32,
        qp_rate_limit_max as "packet_pacing_caps.qp_rate_limit_max": u32,
        qp_rate_limit_qpts as "packet_pacing_caps.supported_qpts": u32,
        raw_packet_caps: u32,
        tm_caps: [u32; 5],
        max_cq_count as "cq_mod_caps.max_cq_count": u16,
        max_cq_period as "cq_mod_caps.max_cq_period": u16,
        max_dm_size: u64,
        pci_atomic_caps: [u16; 3],
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }

    "ibv_values_ex" => IbvValuesEx {
        comp_mask: u32,
        raw_clock: libc::timespec,
    }

    "ibv_port_attr" => IbvPortAttr {
        state: u32,
        max_mtu: u32,
        active_mtu: u32,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
        active_speed_ex: u32,
    }

    "ibv_gid_entry" => IbvGidEntry {
        gid: [u64; 2],
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }

    "ibv_global_route" => IbvGlobalRoute {
        // C's union is aligned to 8 bytes.
        dgid: [u64; 2],
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }

    "ibv_ah_attr" => IbvAhAttr {
        grh: IbvGlobalRoute,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }

    "ibv_srq_attr" => IbvSrqAttr {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }

    "ibv_srq_init_attr" => IbvSrqInitAttr {
        srq_context: *mut c_void,
        attr: IbvSrqAttr,
    }

    "ibv_srq_init_attr_ex" => IbvSrqInitAttrEx {
        srq_context: *mut c_void,
        attr: IbvSrqAttr,
        comp_mask: u32,
        srq_type: u32,
        pd: Handle<IbvPd>,
        xrcd: Handle<IbvXrcd>,
        cq: Handle<IbvCq>,
        tm_cap: [u32; 2],
    }

    "ibv_xrcd_init_attr" => IbvXrcdInitAttr {
        comp_mask: u32,
        fd: c_int,
        oflags: c_int,
    }

    "ibv_qp_cap" => IbvQpCap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }

    "ibv_qp_init_attr" => IbvQpInitAttr {
        qp_context: *mut c_void,
        send_cq: Handle<IbvCq>,
        recv_cq: Handle<IbvCq>,
        srq: Handle<IbvSrq>,
        cap: IbvQpCap,
        qp_type: u32,
        sq_sig_all: c_int,
    }

    "ibv_qp_init_attr_ex" => IbvQpInitAttrEx {
        qp_context: *mut c_void,
        send_cq: Handle<IbvCq>,
        recv_cq: Handle<IbvCq>,
        srq: Handle<IbvSrq>,
        cap: IbvQpCap,
        qp_type: u32,
        sq_sig_all: c_int,
        comp_mask: u32,
        pd: Handle<IbvPd>,
        xrcd: Handle<IbvXrcd>,
        create_flags: u32,
        max_tso_header: u16,
        rwq_ind_tbl: *mut c_void,
        rx_hash_conf: [u64; 3],
        source_qpn: u32,
        send_ops_flags: u64,
    }

    "ibv_qp_attr" => IbvQpAttr {
        qp_state: u32,
        cur_qp_state: u32,
        path_mtu: u32,
        path_mig_state: u32,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: u32,
        cap: IbvQpCap,
        ah_attr: IbvAhAttr,
        alt_ah_attr: IbvAhAttr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }

    "ibv_qp_rate_limit_attr" => IbvQpRateLimitAttr {
        rate_limit: u32,
        max_burst_sz: u32,
        typical_pkt_sz: u16,
        comp_mask: u32,
    }

    "ibv_modify_cq_attr" => IbvModifyCqAttr {
        attr_mask: u32,
        cq_count as "moderate.cq_count": u16,
        cq_period as "moderate.cq_period": u16,
    }

    "ibv_cq_init_attr_ex" => IbvCqInitAttrEx {
        cqe: u32,
        cq_context: *mut c_void,
        channel: Handle<IbvCompChannel>,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: Handle<IbvPd>,
    }

    "ibv_alloc_dm_attr" => IbvAllocDmAttr {
        length: usize,
        log_align_req: u32,
        comp_mask: u32,
    }

    "ibv_parent_domain_init_attr" => IbvParentDomainInitAttr {
        pd: Handle<IbvPd>,
        td: Handle<IbvTd>,
        comp_mask: u32,
        alloc: *const c_void,
        free: *const c_void,
        pd_context: *mut c_void,
    }

    "ibv_async_event" => IbvAsyncEvent {
        // For a port event, the first four bytes are the port number instead.
        element: *mut c_void,
        event_type: u32,
    }

    "ibv_mr_init_attr" => IbvMrInitAttr {
        length: usize,
        access: c_int,
        comp_mask: u64,
        iova: u64,
        addr: *mut c_void,
        fd: c_int,
        fd_offset: u64,
        dmah: *mut c_void,
        buf: Handle<IbvBuf>,
    }

    "ibv_comp_cntr_caps" => IbvCompCntrCaps {
        max_value: u64,
        max_counters: u32,
        supported_qp_attach_ops: u32,
    }

    "ibv_comp_cntr_init_attr" => IbvCompCntrInitAttr {
        comp_mask: u32,
        kind as "type": u32,
        flags: u32,
    }

    "ibv_qp_attach_comp_cntr_attr" => IbvQpAttachCompCntrAttr {
        comp_mask: u32,
        op_mask: u32,
    }

    "ibv_ece" => IbvEce {
        vendor_id: u32,
        options: u32,
        comp_mask: u32,
    }
}

/// A buffer that the library allocated. C treats the structure as opaque.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvBuf {
    pub(crate) _opaque: u64,
}

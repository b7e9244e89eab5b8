//! Devices and contexts, with the function tables that most functions of `verbs.h` use.

use super::layout::c_structs;
use crate::abi::{
    IbvAllocDmAttr, IbvCqEx, IbvCqInitAttrEx, IbvDeviceAttrEx, IbvDm, IbvModifyCqAttr, IbvMr,
    IbvMw, IbvMwBind, IbvParentDomainInitAttr, IbvPd, IbvPortAttr, IbvQp, IbvQpInitAttrEx,
    IbvQpRateLimitAttr, IbvRecvWr, IbvSendWr, IbvSge, IbvSrq, IbvSrqInitAttrEx, IbvTd, IbvValuesEx,
    IbvWc, IbvXrcd, IbvXrcdInitAttr,
};
use crate::context::Context;
use crate::cq::Cq;
use crate::device::Device;
use crate::dm::Dm;
use crate::domain::Td;
use crate::mw::Mw;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out};
use crate::qp::Qp;
use crate::srq::Srq;
use crate::xrc::Xrcd;
use libc::pthread_mutex_t;
use std::ffi::{c_char, c_int, c_void};

/// An entry for a function that programs don't call, or that this library lacks.
pub(crate) type Absent = *const c_void;

c_structs! {
    "ibv_device" => IbvDevice {
        _ops: [*const c_void; 2],
        node_type: c_int,
        transport_type: c_int,
        name: [c_char; 64],
        dev_name: [c_char; 64],
        dev_path: [c_char; 256],
        ibdev_path: [c_char; 256],
    }

    "ibv_context_ops" => IbvContextOps {
        _compat_query_device: Absent,
        _compat_query_port: Absent,
        _compat_alloc_pd: Absent,
        _compat_dealloc_pd: Absent,
        _compat_reg_mr: Absent,
        _compat_rereg_mr: Absent,
        _compat_dereg_mr: Absent,
        alloc_mw: extern "C" fn(Handle<Pd>, u32) -> *mut IbvMw,
        bind_mw: extern "C" fn(Handle<Qp>, Handle<Mw>, Out<IbvMwBind>) -> c_int,
        dealloc_mw: extern "C" fn(Handle<Mw>) -> c_int,
        _compat_create_cq: Absent,
        poll_cq: extern "C" fn(Handle<Cq>, c_int, Out<IbvWc>) -> c_int,
        req_notify_cq: extern "C" fn(Handle<Cq>, c_int) -> c_int,
        _compat_cq_event: Absent,
        _compat_resize_cq: Absent,
        _compat_destroy_cq: Absent,
        _compat_create_srq: Absent,
        _compat_modify_srq: Absent,
        _compat_query_srq: Absent,
        _compat_destroy_srq: Absent,
        post_srq_recv: extern "C" fn(Handle<Srq>, In<IbvRecvWr>, Out<In<IbvRecvWr>>) -> c_int,
        _compat_create_qp: Absent,
        _compat_query_qp: Absent,
        _compat_modify_qp: Absent,
        _compat_destroy_qp: Absent,
        post_send: extern "C" fn(Handle<Qp>, In<IbvSendWr>, Out<In<IbvSendWr>>) -> c_int,
        post_recv: extern "C" fn(Handle<Qp>, In<IbvRecvWr>, Out<In<IbvRecvWr>>) -> c_int,
        _compat_create_ah: Absent,
        _compat_destroy_ah: Absent,
        _compat_attach_mcast: Absent,
        _compat_detach_mcast: Absent,
        _compat_async_event: Absent,
    }

    "ibv_context" => IbvContext {
        device: Handle<Device>,
        ops: IbvContextOps,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: pthread_mutex_t,
        abi_compat: usize,
    }

    // `verbs.h` itself returns EOPNOTSUPP for an entry that is NULL.
    "verbs_context" => VerbsContext {
        query_port: extern "C" fn(Handle<Context>, u8, Out<IbvPortAttr>, usize) -> c_int,
        advise_mr: extern "C" fn(Handle<Pd>, u32, u32, In<IbvSge>, u32) -> c_int,
        alloc_null_mr: extern "C" fn(Handle<Pd>) -> *mut IbvMr,
        read_counters: Absent,
        attach_counters_point_flow: Absent,
        create_counters: Absent,
        destroy_counters: Absent,
        reg_dm_mr: extern "C" fn(Handle<Pd>, Handle<Dm>, u64, usize, u32) -> *mut IbvMr,
        alloc_dm: extern "C" fn(Handle<Context>, In<IbvAllocDmAttr>) -> *mut IbvDm,
        free_dm: extern "C" fn(Handle<Dm>) -> c_int,
        modify_flow_action_esp: Absent,
        destroy_flow_action: Absent,
        create_flow_action_esp: Absent,
        modify_qp_rate_limit: extern "C" fn(Handle<Qp>, In<IbvQpRateLimitAttr>) -> c_int,
        alloc_parent_domain: extern "C" fn(Handle<Context>, In<IbvParentDomainInitAttr>) -> *mut IbvPd,
        dealloc_td: extern "C" fn(Handle<Td>) -> c_int,
        alloc_td: extern "C" fn(Handle<Context>, In<u32>) -> *mut IbvTd,
        modify_cq: extern "C" fn(Handle<Cq>, In<IbvModifyCqAttr>) -> c_int,
        post_srq_ops: Absent,
        destroy_rwq_ind_table: Absent,
        create_rwq_ind_table: Absent,
        destroy_wq: Absent,
        modify_wq: Absent,
        create_wq: Absent,
        query_rt_values: extern "C" fn(Handle<Context>, Out<IbvValuesEx>) -> c_int,
        create_cq_ex: extern "C" fn(Handle<Context>, In<IbvCqInitAttrEx>) -> *mut IbvCqEx,
        private as "priv": Absent,
        query_device_ex:
            extern "C" fn(Handle<Context>, In<u32>, Out<IbvDeviceAttrEx>, usize) -> c_int,
        ibv_destroy_flow: Absent,
        placeholder2 as "ABI_placeholder2": Absent,
        ibv_create_flow: Absent,
        placeholder1 as "ABI_placeholder1": Absent,
        open_qp: Absent,
        create_qp_ex: extern "C" fn(Handle<Context>, Out<IbvQpInitAttrEx>) -> *mut IbvQp,
        get_srq_num: extern "C" fn(Handle<Srq>, Out<u32>) -> c_int,
        create_srq_ex: extern "C" fn(Handle<Context>, Out<IbvSrqInitAttrEx>) -> *mut IbvSrq,
        open_xrcd: extern "C" fn(Handle<Context>, In<IbvXrcdInitAttr>) -> *mut IbvXrcd,
        close_xrcd: extern "C" fn(Handle<Xrcd>) -> c_int,
        _placeholder3 as "_ABI_placeholder3": u64,
        sz: usize,
        context: IbvContext,
    }
}

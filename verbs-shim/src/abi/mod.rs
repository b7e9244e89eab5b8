//! The structures of `verbs.h` and `rdma_cma.h`, as of rdma-core 65. Their layout is the ABI.
//! Pointers in them have the types of `pointer`. A test compares the layout of each with the one
//! that a C compiler computes from the installed header.
//!
//! This file has the device and context structures, to which all others refer, and their function
//! tables, through which most functions of `verbs.h` call the library.

mod attributes;
mod cm;
mod constants;
mod extended;
mod grown;
mod layout;
mod objects;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attributes::*;
pub use cm::cm;
pub(crate) use cm::*;
pub use constants::constants;
pub(crate) use constants::*;
pub(crate) use extended::*;
pub use layout::{Constant, Layout, Since};
pub(crate) use objects::*;
pub(crate) use work::*;

use crate::pointer::{Handle, In, Out};
use layout::c_structs;
use libc::pthread_mutex_t;
use std::ffi::{c_char, c_int, c_void};

/// The layout of every structure.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [
        attributes::LAYOUTS,
        LAYOUTS,
        extended::LAYOUTS,
        objects::LAYOUTS,
        work::LAYOUTS,
    ]
    .into_iter()
    .flatten()
}

/// An unused entry of a function table: programs don't call the function, or this library lacks it.
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
        // To `_compat_dereg_mr`.
        _compat_query_device: [Absent; 7],
        alloc_mw: extern "C" fn(Handle<IbvPd>, u32) -> *mut IbvMw,
        bind_mw: extern "C" fn(Handle<IbvQp>, Handle<IbvMw>, Out<IbvMwBind>) -> c_int,
        dealloc_mw: extern "C" fn(Handle<IbvMw>) -> c_int,
        _compat_create_cq: Absent,
        poll_cq: extern "C" fn(Handle<IbvCq>, c_int, Out<IbvWc>) -> c_int,
        req_notify_cq: extern "C" fn(Handle<IbvCq>, c_int) -> c_int,
        // To `_compat_destroy_srq`.
        _compat_cq_event: [Absent; 7],
        post_srq_recv: extern "C" fn(Handle<IbvSrq>, In<IbvRecvWr>, Out<In<IbvRecvWr>>) -> c_int,
        // To `_compat_destroy_qp`.
        _compat_create_qp: [Absent; 4],
        post_send: extern "C" fn(Handle<IbvQp>, In<IbvSendWr>, Out<In<IbvSendWr>>) -> c_int,
        post_recv: extern "C" fn(Handle<IbvQp>, In<IbvRecvWr>, Out<In<IbvRecvWr>>) -> c_int,
        // To `_compat_async_event`.
        _compat_create_ah: [Absent; 5],
    }

    "ibv_context" => IbvContext {
        device: Handle<IbvDevice>,
        ops: IbvContextOps,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: pthread_mutex_t,
        abi_compat: usize,
    }

    // `verbs.h` itself returns EOPNOTSUPP for an entry that is NULL.
    "verbs_context" => VerbsContext {
        query_port: extern "C" fn(Handle<IbvContext>, u8, Out<IbvPortAttr>, usize) -> c_int,
        advise_mr: extern "C" fn(Handle<IbvPd>, u32, u32, In<IbvSge>, u32) -> c_int,
        alloc_null_mr: extern "C" fn(Handle<IbvPd>) -> *mut IbvMr,
        // To `destroy_counters`.
        read_counters: [Absent; 4],
        reg_dm_mr: extern "C" fn(Handle<IbvPd>, Handle<IbvDm>, u64, usize, u32) -> *mut IbvMr,
        alloc_dm: extern "C" fn(Handle<IbvContext>, In<IbvAllocDmAttr>) -> *mut IbvDm,
        free_dm: extern "C" fn(Handle<IbvDm>) -> c_int,
        // To `create_flow_action_esp`.
        modify_flow_action_esp: [Absent; 3],
        modify_qp_rate_limit: extern "C" fn(Handle<IbvQp>, In<IbvQpRateLimitAttr>) -> c_int,
        alloc_parent_domain: extern "C" fn(Handle<IbvContext>, In<IbvParentDomainInitAttr>) -> *mut IbvPd,
        dealloc_td: extern "C" fn(Handle<IbvTd>) -> c_int,
        alloc_td: extern "C" fn(Handle<IbvContext>, In<u32>) -> *mut IbvTd,
        modify_cq: extern "C" fn(Handle<IbvCq>, In<IbvModifyCqAttr>) -> c_int,
        // To `create_wq`.
        post_srq_ops: [Absent; 6],
        query_rt_values: extern "C" fn(Handle<IbvContext>, Out<IbvValuesEx>) -> c_int,
        create_cq_ex: extern "C" fn(Handle<IbvContext>, In<IbvCqInitAttrEx>) -> *mut IbvCqEx,
        private as "priv": Absent,
        query_device_ex:
            extern "C" fn(Handle<IbvContext>, In<u32>, Out<IbvDeviceAttrEx>, usize) -> c_int,
        // To `open_qp`.
        ibv_destroy_flow: [Absent; 5],
        create_qp_ex: extern "C" fn(Handle<IbvContext>, Out<IbvQpInitAttrEx>) -> *mut IbvQp,
        get_srq_num: extern "C" fn(Handle<IbvSrq>, Out<u32>) -> c_int,
        create_srq_ex: extern "C" fn(Handle<IbvContext>, Out<IbvSrqInitAttrEx>) -> *mut IbvSrq,
        open_xrcd: extern "C" fn(Handle<IbvContext>, In<IbvXrcdInitAttr>) -> *mut IbvXrcd,
        close_xrcd: extern "C" fn(Handle<IbvXrcd>) -> c_int,
        _placeholder3 as "_ABI_placeholder3": u64,
        sz: usize,
        context: IbvContext,
    }
}

//! The C structures of verbs objects.

use super::IbvContext;
use super::layout::c_structs;
use crate::pointer::{Handle, In, Out};
use libc::{pthread_cond_t, pthread_mutex_t};
use std::ffi::{c_int, c_void};

c_structs! {
    "ibv_pd" => IbvPd {
        context: Handle<IbvContext>,
        handle: u32,
    }

    "ibv_td" => IbvTd {
        context: Handle<IbvContext>,
    }

    "ibv_xrcd" => IbvXrcd {
        context: Handle<IbvContext>,
    }

    "ibv_ah" => IbvAh {
        context: Handle<IbvContext>,
        pd: Handle<IbvPd>,
        handle: u32,
    }

    "ibv_mr" => IbvMr {
        context: Handle<IbvContext>,
        pd: Handle<IbvPd>,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    "ibv_mw" => IbvMw {
        context: Handle<IbvContext>,
        pd: Handle<IbvPd>,
        rkey: u32,
        handle: u32,
        kind as "type": u32,
    }

    "ibv_dm" => IbvDm {
        context: Handle<IbvContext>,
        memcpy_to_dm: extern "C" fn(Handle<IbvDm>, u64, In<u8>, usize) -> c_int,
        memcpy_from_dm: extern "C" fn(Out<u8>, Handle<IbvDm>, u64, usize) -> c_int,
        comp_mask: u32,
        handle: u32,
    }

    "ibv_comp_cntr" => IbvCompCntr {
        context: Handle<IbvContext>,
        handle: u32,
    }

    "ibv_comp_channel" => IbvCompChannel {
        context: Handle<IbvContext>,
        fd: c_int,
        refcnt: c_int,
    }

    "ibv_cq" => IbvCq {
        context: Handle<IbvContext>,
        channel: Handle<IbvCompChannel>,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }

    "ibv_srq" => IbvSrq {
        context: Handle<IbvContext>,
        srq_context: *mut c_void,
        pd: Handle<IbvPd>,
        handle: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }

    "ibv_qp" => IbvQp {
        context: Handle<IbvContext>,
        qp_context: *mut c_void,
        pd: Handle<IbvPd>,
        send_cq: Handle<IbvCq>,
        recv_cq: Handle<IbvCq>,
        srq: Handle<IbvSrq>,
        handle: u32,
        qp_num: u32,
        state: u32,
        qp_type: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
}

//! The parts of objects that C sees.

use super::layout::c_structs;
use crate::channel::Channel;
use crate::context::Context;
use crate::cq::Cq;
use crate::dm::Dm;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out};
use crate::srq::Srq;
use libc::{pthread_cond_t, pthread_mutex_t};
use std::ffi::{c_int, c_void};

c_structs! {
    "ibv_pd" => IbvPd {
        context: Handle<Context>,
        handle: u32,
    }

    "ibv_td" => IbvTd {
        context: Handle<Context>,
    }

    "ibv_xrcd" => IbvXrcd {
        context: Handle<Context>,
    }

    "ibv_ah" => IbvAh {
        context: Handle<Context>,
        pd: Handle<Pd>,
        handle: u32,
    }

    "ibv_mr" => IbvMr {
        context: Handle<Context>,
        pd: Handle<Pd>,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    "ibv_mw" => IbvMw {
        context: Handle<Context>,
        pd: Handle<Pd>,
        rkey: u32,
        handle: u32,
        kind as "type": u32,
    }

    "ibv_dm" => IbvDm {
        context: Handle<Context>,
        memcpy_to_dm: extern "C" fn(Handle<Dm>, u64, In<u8>, usize) -> c_int,
        memcpy_from_dm: extern "C" fn(Out<u8>, Handle<Dm>, u64, usize) -> c_int,
        comp_mask: u32,
        handle: u32,
    }

    "ibv_comp_channel" => IbvCompChannel {
        context: Handle<Context>,
        fd: c_int,
        refcnt: c_int,
    }

    "ibv_cq" => IbvCq {
        context: Handle<Context>,
        channel: Handle<Channel>,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }

    "ibv_srq" => IbvSrq {
        context: Handle<Context>,
        srq_context: *mut c_void,
        pd: Handle<Pd>,
        handle: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }

    "ibv_qp" => IbvQp {
        context: Handle<Context>,
        qp_context: *mut c_void,
        pd: Handle<Pd>,
        send_cq: Handle<Cq>,
        recv_cq: Handle<Cq>,
        srq: Handle<Srq>,
        handle: u32,
        qp_num: u32,
        state: u32,
        qp_type: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
}

//! Objects with function tables of their own: extended CQs and QPs.

use super::layout::c_structs;
use super::{IbvAh, IbvCq, IbvMw, IbvMwBindInfo, IbvQp, IbvSge};
use crate::pointer::{Handle, In};
use std::ffi::{c_int, c_void};

c_structs! {
    // C repeats the fields of `ibv_cq`.
    "ibv_cq_ex" => IbvCqEx {
        base as "context": IbvCq,
        comp_mask: u32,
        status: u32,
        wr_id: u64,
        start_poll: extern "C" fn(Handle<IbvCq>, In<u32>) -> c_int,
        next_poll: extern "C" fn(Handle<IbvCq>) -> c_int,
        end_poll: extern "C" fn(Handle<IbvCq>),
        read_opcode: extern "C" fn(Handle<IbvCq>) -> u32,
        read_vendor_err: extern "C" fn(Handle<IbvCq>) -> u32,
        read_byte_len: extern "C" fn(Handle<IbvCq>) -> u32,
        read_imm_data: extern "C" fn(Handle<IbvCq>) -> u32,
        read_qp_num: extern "C" fn(Handle<IbvCq>) -> u32,
        read_src_qp: extern "C" fn(Handle<IbvCq>) -> u32,
        read_wc_flags: extern "C" fn(Handle<IbvCq>) -> u32,
        read_slid: extern "C" fn(Handle<IbvCq>) -> u32,
        read_sl: extern "C" fn(Handle<IbvCq>) -> u8,
        read_dlid_path_bits: extern "C" fn(Handle<IbvCq>) -> u8,
        read_completion_ts: extern "C" fn(Handle<IbvCq>) -> u64,
        // Fields that no CQ of this library provides.
        read_cvlan: *const c_void,
        read_flow_tag: *const c_void,
        read_tm_info: *const c_void,
        read_completion_wallclock_ns: extern "C" fn(Handle<IbvCq>) -> u64,
    }

    "ibv_qp_ex" => IbvQpEx {
        qp_base: IbvQp,
        comp_mask: u64,
        wr_id: u64,
        wr_flags: u32,
        wr_atomic_cmp_swp: extern "C" fn(Handle<IbvQp>, u32, u64, u64, u64),
        wr_atomic_fetch_add: extern "C" fn(Handle<IbvQp>, u32, u64, u64),
        wr_bind_mw: extern "C" fn(Handle<IbvQp>, Handle<IbvMw>, u32, In<IbvMwBindInfo>),
        wr_local_inv: extern "C" fn(Handle<IbvQp>, u32),
        wr_rdma_read: extern "C" fn(Handle<IbvQp>, u32, u64),
        wr_rdma_write: extern "C" fn(Handle<IbvQp>, u32, u64),
        wr_rdma_write_imm: extern "C" fn(Handle<IbvQp>, u32, u64, u32),
        wr_send: extern "C" fn(Handle<IbvQp>),
        wr_send_imm: extern "C" fn(Handle<IbvQp>, u32),
        wr_send_inv: extern "C" fn(Handle<IbvQp>, u32),
        // No QP supports it.
        wr_send_tso: *const c_void,
        wr_set_ud_addr: extern "C" fn(Handle<IbvQp>, Handle<IbvAh>, u32, u32),
        wr_set_xrc_srqn: extern "C" fn(Handle<IbvQp>, u32),
        wr_set_inline_data: extern "C" fn(Handle<IbvQp>, In<u8>, usize),
        wr_set_inline_data_list: extern "C" fn(Handle<IbvQp>, usize, In<IbvDataBuf>),
        wr_set_sge: extern "C" fn(Handle<IbvQp>, u32, u64, u32),
        wr_set_sge_list: extern "C" fn(Handle<IbvQp>, usize, In<IbvSge>),
        wr_start: extern "C" fn(Handle<IbvQp>),
        wr_complete: extern "C" fn(Handle<IbvQp>) -> c_int,
        wr_abort: extern "C" fn(Handle<IbvQp>),
        wr_atomic_write: extern "C" fn(Handle<IbvQp>, u32, u64, In<[u8; 8]>),
        wr_flush: extern "C" fn(Handle<IbvQp>, u32, u64, usize, u8, u8),
    }

    "ibv_data_buf" => IbvDataBuf {
        addr: In<u8>,
        length: usize,
    }
}

//! Work requests and completions.

use super::layout::c_structs;
use super::{IbvAh, IbvMr, IbvMw};
use crate::pointer::{Handle, In};

c_structs! {
    "ibv_sge" => IbvSge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    "ibv_mw_bind_info" => IbvMwBindInfo {
        mr: Handle<IbvMr>,
        addr: u64,
        length: u64,
        mw_access_flags: u32,
    }

    "ibv_mw_bind" => IbvMwBind {
        wr_id: u64,
        send_flags: u32,
        bind_info: IbvMwBindInfo,
    }

    "ibv_send_wr" => IbvSendWr {
        wr_id: u64,
        next: In<IbvSendWr>,
        sg_list: In<IbvSge>,
        num_sge: i32,
        opcode: u32,
        send_flags: u32,
        // For an invalidation, the R_Key or L_Key to invalidate, in host byte order.
        imm_data: u32,
        wr: Remote,
        qp_type as "qp_type.xrc.remote_srqn": u32,
        bind_mw: Bind,
    }

    "ibv_recv_wr" => IbvRecvWr {
        wr_id: u64,
        next: In<IbvRecvWr>,
        sg_list: In<IbvSge>,
        num_sge: i32,
    }

    "ibv_wc" => IbvWc {
        wr_id: u64,
        status: u32,
        opcode: u32,
        vendor_err: u32,
        byte_len: u32,
        // With WC_WITH_INV, the invalidated R_Key, in host byte order.
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
}

impl From<IbvSge> for roce_verbs::Sge {
    fn from(sge: IbvSge) -> Self {
        let IbvSge { addr, length, lkey } = sge;
        Self { addr, length, lkey }
    }
}

/// The remote end of a request. The opcode and the QP's type determine the variant.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Remote {
    rdma: Rdma,
    atomic: Atomic,
    ud: Datagram,
}

/// For READ and WRITE.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

/// For atomics.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

/// For UD.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) ah: Handle<IbvAh>,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

/// The parameters of a window's binding.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Bind {
    pub(crate) mw: Handle<IbvMw>,
    pub(crate) rkey: u32,
    pub(crate) bind_info: IbvMwBindInfo,
}

impl IbvSendWr {
    pub(crate) fn rdma(&self) -> Rdma {
        // SAFETY: plain numbers, of which every value is valid; all of them are in the
        // caller's structure.
        unsafe { self.wr.rdma }
    }

    pub(crate) fn atomic(&self) -> Atomic {
        // SAFETY: as above.
        unsafe { self.wr.atomic }
    }

    pub(crate) fn datagram(&self) -> Datagram {
        // SAFETY: as above; a handle is a number until it is used.
        unsafe { self.wr.ud }
    }
}

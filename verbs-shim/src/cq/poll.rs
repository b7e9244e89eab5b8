//! Polling of extended CQs. The program advances from one completion to the next, and reads single
//! fields of the current one.

use super::Cq;
use crate::prelude::*;
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;
use roce_verbs::completion::{Completion, CqOverrun};

/// The polling state of an extended CQ.
pub(crate) struct Poll {
    /// Locked from `ibv_start_poll` to `ibv_end_poll`, unless the program promised to use the CQ
    /// from one thread at a time.
    poll_lock: Option<RawMutex>,
    current: Mutex<Current>,
}

#[derive(Clone, Copy)]
struct Current {
    wc: IbvWc,
    /// Its time by the device's clock.
    at_ns: u64,
}

impl Poll {
    pub(super) fn new(single_threaded: bool) -> Self {
        Self {
            poll_lock: (!single_threaded).then_some(RawMutex::INIT),
            current: Mutex::new(Current {
                wc: IbvWc::zeroed(),
                at_ns: 0,
            }),
        }
    }

    fn begin(&self) {
        if let Some(poll_lock) = &self.poll_lock {
            poll_lock.lock();
        }
    }

    fn end(&self) {
        if let Some(poll_lock) = &self.poll_lock
            && poll_lock.is_locked()
        {
            // SAFETY: it is locked, and the thread that called `ibv_start_poll` is the one that
            // calls `ibv_end_poll`.
            unsafe { poll_lock.unlock() };
        }
    }
}

impl Cq {
    /// Makes `next` the current completion.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EOVERFLOW` if the queue has overrun.
    fn advance(&self, next: Result<Option<(Completion, u64)>, CqOverrun>) -> Result<(), Errno> {
        match next {
            Ok(Some((completion, at_ns))) => {
                let wc = self.wc(&completion);
                *self.poll.current.lock() = Current { wc, at_ns };
                self.c.set(|c| (c.status, c.wr_id) = (wc.status, wc.wr_id));
                Ok(())
            }
            Ok(None) => Err(Errno::ENOENT),
            Err(_) => Err(Errno::EOVERFLOW),
        }
    }
}

/// `ibv_start_poll`: `ENOENT` if there is no completion.
extern "C" fn start_poll(cq: Handle<IbvCq>, attr: In<u32>) -> c_int {
    guard::errno("ibv_start_poll", || {
        let cq = cq.get()?;
        if !attr.is_null() && attr.read()? != 0 {
            return Err(Errno::EINVAL);
        }
        cq.poll.begin();
        // After ENOENT, the program does not call ibv_end_poll.
        let first = cq.queue.poll_timed();
        cq.advance(first).inspect_err(|_| cq.poll.end())
    })
}

extern "C" fn next_poll(cq: Handle<IbvCq>) -> c_int {
    guard::errno("ibv_next_poll", || {
        let cq = cq.get()?;
        cq.advance(cq.queue.take_timed())
    })
}

extern "C" fn end_poll(cq: Handle<IbvCq>) {
    guard::nothing("ibv_end_poll", || {
        cq.get()?.poll.end();
        Ok(())
    });
}

extern "C" fn read_completion_ts(cq: Handle<IbvCq>) -> u64 {
    guard::value("ibv_wc_read_completion_ts", 0, || {
        Ok(cq.get()?.poll.current.lock().at_ns)
    })
}

/// The completion's time, by the wall clock as it is set now.
extern "C" fn read_completion_wallclock_ns(cq: Handle<IbvCq>) -> u64 {
    guard::value("ibv_wc_read_completion_wallclock_ns", 0, || {
        let cq = cq.get()?;
        cq.state
            .roce
            .wall_clock_ns(cq.poll.current.lock().at_ns)
            .or_errno()
    })
}

/// Defines the functions that read one field of the current completion.
macro_rules! readers {
    ($($reader:ident -> $type:ty: $call:literal reads $field:ident;)*) => {$(
        extern "C" fn $reader(cq: Handle<IbvCq>) -> $type {
            guard::value($call, 0, || {
                Ok(cq.get()?.poll.current.lock().wc.$field.into())
            })
        }
    )*};
}

readers! {
    read_opcode -> u32: "ibv_wc_read_opcode" reads opcode;
    read_vendor_err -> u32: "ibv_wc_read_vendor_err" reads vendor_err;
    read_byte_len -> u32: "ibv_wc_read_byte_len" reads byte_len;
    read_imm_data -> u32: "ibv_wc_read_imm_data" reads imm_data;
    read_qp_num -> u32: "ibv_wc_read_qp_num" reads qp_num;
    read_src_qp -> u32: "ibv_wc_read_src_qp" reads src_qp;
    read_wc_flags -> u32: "ibv_wc_read_wc_flags" reads wc_flags;
    read_slid -> u32: "ibv_wc_read_slid" reads slid;
    read_sl -> u8: "ibv_wc_read_sl" reads sl;
    read_dlid_path_bits -> u8: "ibv_wc_read_dlid_path_bits" reads dlid_path_bits;
}

/// The C structure of an extended CQ, with these functions.
pub(super) fn c_part(base: crate::abi::IbvCq) -> IbvCqEx {
    IbvCqEx {
        base,
        comp_mask: 0,
        status: WC_SUCCESS,
        wr_id: 0,
        start_poll,
        next_poll,
        end_poll,
        read_opcode,
        read_vendor_err,
        read_byte_len,
        read_imm_data,
        read_qp_num,
        read_src_qp,
        read_wc_flags,
        read_slid,
        read_sl,
        read_dlid_path_bits,
        read_completion_ts,
        read_cvlan: std::ptr::null(),
        read_flow_tag: std::ptr::null(),
        read_tm_info: std::ptr::null(),
        read_completion_wallclock_ns,
    }
}

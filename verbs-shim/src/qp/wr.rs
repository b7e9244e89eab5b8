//! The `ibv_wr_*` API: calls between `ibv_wr_start` and `ibv_wr_complete` build requests, which
//! `ibv_wr_complete` posts together.

use super::Qp;
use crate::convert::send_flags;
use crate::log;
use crate::prelude::*;
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;
use roce_verbs::qp::{QKey, Srqn};
use roce_verbs::work::{
    Flush, FlushPlacement, FlushSelectivity, Payload, PostError, SendBatch, SendFlags, Target,
};
use roce_verbs::{Qpn, RemoteAddr, SendOp, SendRequest, Sge};

/// The requests under construction.
pub(crate) struct Builder {
    /// Locked from `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort`.
    build_lock: RawMutex,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    all: Vec<Request>,
    /// The first error, and its reason if known.
    error: Option<(Errno, Option<String>)>,
}

struct Request {
    wr_id: u64,
    flags: SendFlags,
    op: SendOp,
    sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    target: Target,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            build_lock: RawMutex::INIT,
            requests: Mutex::default(),
        }
    }

    /// Ends the construction that `ibv_wr_start` began.
    fn end(&self) -> Requests {
        let requests = std::mem::take(&mut *self.requests.lock());
        if self.build_lock.is_locked() {
            // SAFETY: it is locked, and the thread that called `ibv_wr_start` is the one that calls
            // `ibv_wr_complete` or `ibv_wr_abort`.
            unsafe { self.build_lock.unlock() };
        }
        requests
    }
}

impl Request {
    fn post(&self, batch: &mut SendBatch<'_>) -> Result<(), Errno> {
        let request = SendRequest {
            wr_id: self.wr_id,
            op: self.op,
            payload: match &self.inline {
                Some(data) => Payload::Inline(data),
                None => Payload::Elements(&self.sges),
            },
            target: self.target,
            flags: self.flags,
        };
        batch.send(&request).or_errno()
    }
}

impl Qp {
    /// Begins a request, with the ID and flags that the program stored in its QP.
    fn begin(&self, op: Result<SendOp, Errno>) -> Result<(), Errno> {
        let c = self.c.get();
        let mut requests = self.builder.requests.lock();
        let made = op.and_then(|op| Ok((op, send_flags(c.wr_flags)?)));
        match made {
            Ok((op, flags)) => requests.all.push(Request {
                wr_id: c.wr_id,
                // The data setter determines whether data is inline.
                flags: flags - SendFlags::INLINE,
                op,
                sges: Vec::new(),
                inline: None,
                target: Target::Peer,
            }),
            Err(errno) => requests.fail(errno),
        }
        Ok(())
    }

    fn change_last(
        &self,
        change: impl FnOnce(&mut Request) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut requests = self.builder.requests.lock();
        if requests.error.is_some() {
            return Ok(());
        }
        let last = requests.all.last_mut().ok_or(Errno::EINVAL);
        if let Err(errno) = last.and_then(change) {
            requests.fail(errno);
        }
        Ok(())
    }

    /// Posts the requests in order. Posts none if one could not be built, or if the queue has no
    /// room for all of them. If the NIC refuses one, for example because its
    /// scatter/gather list is too long, those before it stay posted, and the rest are not posted.
    fn post_all(&self, requests: &Requests) -> Result<(), Errno> {
        if let Some((errno, reason)) = &requests.error {
            if let Some(reason) = reason {
                log::set_reason(|| reason.clone());
            }
            return Err(*errno);
        }
        let (waiting, _) = self.qp.queued();
        let (new, depth) = (requests.all.len(), self.cap.max_send_wr);
        if waiting + new > depth as usize {
            return Err(log::with_reason(Errno::ENOMEM, || {
                format!(
                    "the send queue has {depth} entries, {waiting} of them in use, and no room for \
                     {new} more requests"
                )
            }));
        }
        self.qp.post_batch(|batch| {
            let mut all = requests.all.iter();
            all.try_for_each(|request| request.post(batch))
        })
    }
}

impl Requests {
    fn fail(&mut self, errno: Errno) {
        // The calls that build a request return nothing: `ibv_wr_complete` reports the error.
        self.error
            .get_or_insert_with(|| (errno, log::take_reason()));
    }
}

fn begin(call: &'static str, qp: Handle<IbvQp>, op: impl FnOnce() -> Result<SendOp, Errno>) {
    guard::nothing(call, || qp.get()?.begin(op()));
}

fn change_last(
    call: &'static str,
    qp: Handle<IbvQp>,
    change: impl FnOnce(&mut Request) -> Result<(), Errno>,
) {
    guard::nothing(call, || qp.get()?.change_last(change));
}

extern "C" fn start(qp: Handle<IbvQp>) {
    guard::nothing("ibv_wr_start", || {
        qp.get()?.builder.build_lock.lock();
        Ok(())
    });
}

extern "C" fn complete(qp: Handle<IbvQp>) -> c_int {
    guard::errno("ibv_wr_complete", || {
        let qp = qp.get()?;
        let requests = qp.builder.end();
        qp.post_all(&requests)
    })
}

extern "C" fn abort(qp: Handle<IbvQp>) {
    guard::nothing("ibv_wr_abort", || {
        drop(qp.get()?.builder.end());
        Ok(())
    });
}

/// Defines the functions that begin a request: the C function, its arguments, and its operation.
macro_rules! requests {
    ($($call:literal: $name:ident($($arg:ident: $type:ty),*) => $op:expr;)*) => {$(
        extern "C" fn $name(qp: Handle<IbvQp>, $($arg: $type),*) {
            begin($call, qp, || Ok($op));
        }
    )*};
}

requests! {
    "ibv_wr_atomic_cmp_swp": atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =>
        SendOp::CompareSwap { remote: RemoteAddr { addr, rkey }, compare, swap };
    "ibv_wr_atomic_fetch_add": atomic_fetch_add(rkey: u32, addr: u64, add: u64) =>
        SendOp::FetchAdd { remote: RemoteAddr { addr, rkey }, add };
    "ibv_wr_bind_mw": bind_mw(mw: Handle<IbvMw>, rkey: u32, info: In<IbvMwBindInfo>) =>
        mw.get()?.bind(rkey, &info.read()?)?;
    "ibv_wr_flush": flush(rkey: u32, addr: u64, len: usize, placement: u8, level: u8) =>
        SendOp::Flush(Flush {
            remote: RemoteAddr { addr, rkey },
            len: u32::try_from(len).map_err(|_| Errno::EINVAL)?,
            placement: FlushPlacement::from_bits(placement),
            selectivity: FlushSelectivity::from_bits(level),
        });
    "ibv_wr_local_inv": local_inv(rkey: u32) => SendOp::LocalInv(rkey);
    "ibv_wr_rdma_read": rdma_read(rkey: u32, addr: u64) =>
        SendOp::Read(RemoteAddr { addr, rkey });
    "ibv_wr_rdma_write": rdma_write(rkey: u32, addr: u64) =>
        SendOp::Write(RemoteAddr { addr, rkey });
    "ibv_wr_rdma_write_imm": rdma_write_imm(rkey: u32, addr: u64, imm: u32) =>
        SendOp::WriteImm(RemoteAddr { addr, rkey }, u32::from_be(imm));
    "ibv_wr_send": send() => SendOp::Send;
    "ibv_wr_send_imm": send_imm(imm: u32) => SendOp::SendImm(u32::from_be(imm));
    "ibv_wr_send_inv": send_inv(rkey: u32) => SendOp::SendInvalidate(rkey);
}

extern "C" fn atomic_write(qp: Handle<IbvQp>, rkey: u32, addr: u64, data: In<[u8; 8]>) {
    begin("ibv_wr_atomic_write", qp, || {
        Ok(SendOp::AtomicWrite(RemoteAddr { addr, rkey }))
    });
    change_last("ibv_wr_atomic_write", qp, |request| {
        request.inline = Some(data.read()?.to_vec());
        Ok(())
    });
}

extern "C" fn set_ud_addr(qp: Handle<IbvQp>, ah: Handle<IbvAh>, qpn: u32, qkey: u32) {
    change_last("ibv_wr_set_ud_addr", qp, |request| {
        let qpn = Qpn::new(qpn).ok_or(Errno::EINVAL)?;
        request.target = qp.get()?.destination(ah, qpn, QKey(qkey))?.into();
        Ok(())
    });
}

extern "C" fn set_xrc_srqn(qp: Handle<IbvQp>, number: u32) {
    change_last("ibv_wr_set_xrc_srqn", qp, |request| {
        request.target = Srqn::from_bits(number).into();
        Ok(())
    });
}

/// Sets inline data from any number of parts.
fn set_inline(call: &'static str, qp: Handle<IbvQp>, parts: impl Iterator<Item = (In<u8>, usize)>) {
    let max = guard::value(call, 0, || Ok(qp.get()?.cap.max_inline_data as usize));
    change_last(call, qp, |request| {
        let mut data = Vec::new();
        for (addr, len) in parts {
            if len > max - data.len() {
                let bytes = data.len().saturating_add(len) as u64;
                return Err(PostError::InlineTooLong { bytes, max }).or_errno();
            }
            data.extend_from_slice(addr.slice(len)?);
        }
        request.inline = Some(data);
        Ok(())
    });
}

extern "C" fn set_inline_data(qp: Handle<IbvQp>, addr: In<u8>, len: usize) {
    set_inline("ibv_wr_set_inline_data", qp, std::iter::once((addr, len)));
}

extern "C" fn set_inline_data_list(qp: Handle<IbvQp>, count: usize, list: In<IbvDataBuf>) {
    let Ok(list) = list.items(count) else {
        return change_last("ibv_wr_set_inline_data_list", qp, |_| Err(Errno::EINVAL));
    };
    set_inline(
        "ibv_wr_set_inline_data_list",
        qp,
        list.map(|part| (part.addr, part.length)),
    );
}

fn set_sges(call: &'static str, qp: Handle<IbvQp>, sges: impl Iterator<Item = IbvSge>) {
    change_last(call, qp, |request| {
        request.sges = sges.map(Sge::from).collect();
        Ok(())
    });
}

extern "C" fn set_sge(qp: Handle<IbvQp>, lkey: u32, addr: u64, length: u32) {
    let sge = IbvSge { addr, length, lkey };
    set_sges("ibv_wr_set_sge", qp, std::iter::once(sge));
}

extern "C" fn set_sge_list(qp: Handle<IbvQp>, count: usize, list: In<IbvSge>) {
    match list.items(count) {
        Ok(sges) => set_sges("ibv_wr_set_sge_list", qp, sges),
        Err(errno) => change_last("ibv_wr_set_sge_list", qp, |_| Err(errno)),
    }
}

/// `ibv_qp_to_qp_ex`: NULL for a QP that was not created for it.
pub(crate) extern "C" fn qp_to_qp_ex(qp: Handle<IbvQp>) -> *mut IbvQpEx {
    guard::pointer("ibv_qp_to_qp_ex", || {
        let qp = qp.get()?;
        if qp.extended {
            Ok(qp.c.as_ptr())
        } else {
            Err(Errno::EOPNOTSUPP)
        }
    })
}

/// The C structure of an extended QP, with these functions.
pub(super) fn c_part(qp_base: IbvQp) -> IbvQpEx {
    IbvQpEx {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: atomic_cmp_swp,
        wr_atomic_fetch_add: atomic_fetch_add,
        wr_bind_mw: bind_mw,
        wr_local_inv: local_inv,
        wr_rdma_read: rdma_read,
        wr_rdma_write: rdma_write,
        wr_rdma_write_imm: rdma_write_imm,
        wr_send: send,
        wr_send_imm: send_imm,
        wr_send_inv: send_inv,
        wr_send_tso: std::ptr::null(),
        wr_set_ud_addr: set_ud_addr,
        wr_set_xrc_srqn: set_xrc_srqn,
        wr_set_inline_data: set_inline_data,
        wr_set_inline_data_list: set_inline_data_list,
        wr_set_sge: set_sge,
        wr_set_sge_list: set_sge_list,
        wr_start: start,
        wr_complete: complete,
        wr_abort: abort,
        wr_atomic_write: atomic_write,
        wr_flush: flush,
    }
}

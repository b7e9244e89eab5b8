//! Posting work requests.

use super::Qp;
use crate::convert::send_flags;
use crate::prelude::*;
use roce_verbs::qp::{QKey, Srqn};
use roce_verbs::work::{
    MAX_INLINE_BYTES, MAX_SGE, Payload, PostError, SendBatch, SendFlags, Target,
};
use roce_verbs::{QpKind, Qpn, RecvRequest, RemoteAddr, SendOp, SendRequest, Sge};

pub(crate) extern "C" fn post_send(
    qp: Handle<IbvQp>,
    first: In<IbvSendWr>,
    bad: Out<In<IbvSendWr>>,
) -> c_int {
    let work = || {
        let qp = qp.get()?;
        qp.qp.post_batch(|batch| {
            let mut next = first;
            while !next.is_null() {
                let wr = qp.read_request(next)?;
                if let Err(errno) = post_one(qp, batch, &wr) {
                    bad.put_if_not_null(next);
                    return Err(errno);
                }
                next = wr.next;
            }
            Ok(())
        })
    };
    guard::post("ibv_post_send", work, || bad.put_if_not_null(first))
}

pub(crate) extern "C" fn post_recv(
    qp: Handle<IbvQp>,
    first: In<IbvRecvWr>,
    bad: Out<In<IbvRecvWr>>,
) -> c_int {
    let work = || {
        let qp = &qp.get()?.qp;
        each_recv(first, bad, |request| qp.post_recv(request).or_errno())
    };
    guard::post("ibv_post_recv", work, || bad.put_if_not_null(first))
}

/// Calls `post` for each receive request of a list, for `ibv_post_recv` and `ibv_post_srq_recv`.
/// Stops at the first error, and stores the failed request in `*bad`.
pub(crate) fn each_recv(
    first: In<IbvRecvWr>,
    bad: Out<In<IbvRecvWr>>,
    mut post: impl FnMut(&RecvRequest<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut next = first;
    while !next.is_null() {
        let wr = next.read()?;
        let posted = elements(wr.sg_list, wr.num_sge).and_then(|sges| {
            post(&RecvRequest {
                wr_id: wr.wr_id,
                sges: sges.as_slice(),
            })
        });
        if let Err(errno) = posted {
            bad.put_if_not_null(next);
            return Err(errno);
        }
        next = wr.next;
    }
    Ok(())
}

impl Qp {
    /// Reads those fields of a request that the QP's type and the operation use. Programs built
    /// with an older header lack the structure's newer fields.
    fn read_request(&self, at: In<IbvSendWr>) -> Result<IbvSendWr, Errno> {
        let wr = at.read_prefix(std::mem::offset_of!(IbvSendWr, qp_type))?;
        if self.kind == QpKind::XrcInitiator || wr.opcode == WR_BIND_MW {
            return at.read();
        }
        Ok(wr)
    }
}

/// The scatter/gather elements of one request.
struct Elements {
    all: [Sge; MAX_SGE],
    len: usize,
}

impl Elements {
    fn as_slice(&self) -> &[Sge] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

fn elements(list: In<IbvSge>, len: c_int) -> Result<Elements, Errno> {
    let given = len;
    let wrong = || {
        with_reason(Errno::EINVAL, || {
            format!("num_sge is {given}, and must be 0 to {MAX_SGE}")
        })
    };
    let len = usize::try_from(len).map_err(|_| wrong())?;
    if len > MAX_SGE {
        return Err(wrong());
    }
    let mut all = [Sge::default(); MAX_SGE];
    for (to, from) in all.iter_mut().zip(list.items(len)?) {
        *to = from.into();
    }
    Ok(Elements { all, len })
}

fn post_one(qp: &Qp, batch: &mut SendBatch<'_>, wr: &IbvSendWr) -> Result<(), Errno> {
    let flags = send_flags(wr.send_flags)?;
    let op = operation(wr)?;
    let target = target(qp, wr, &op)?;
    let sges = match op {
        // These operations ignore the scatter/gather list.
        SendOp::BindMw(_) | SendOp::LocalInv(_) => elements(wr.sg_list, 0)?,
        _ => elements(wr.sg_list, wr.num_sge)?,
    };
    let mut buffer;
    let payload = if flags.contains(SendFlags::INLINE) {
        buffer = [0; MAX_INLINE_BYTES];
        Payload::Inline(gather(&mut buffer, sges.as_slice())?)
    } else {
        Payload::Elements(sges.as_slice())
    };
    let request = SendRequest {
        wr_id: wr.wr_id,
        op,
        payload,
        target,
        flags,
    };
    batch.send(&request).or_errno()
}

/// Copies the inline data of a request to `buffer`. Inline data needs no memory region. The stack
/// decides how much the QP takes; this is only about the room.
///
/// # Errors
/// `EINVAL` if it is longer than [`MAX_INLINE_BYTES`], or if an address is NULL.
fn gather<'a>(buffer: &'a mut [u8; MAX_INLINE_BYTES], sges: &[Sge]) -> Result<&'a [u8], Errno> {
    let bytes = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let max = MAX_INLINE_BYTES;
    if bytes > max as u64 {
        return Err(PostError::InlineTooLong { bytes, max }).or_errno();
    }
    let mut rest = buffer.as_mut_slice();
    for sge in sges {
        let bytes = In::<u8>::at(sge.addr).slice(sge.length as usize)?;
        let (part, after) = rest.split_at_mut(bytes.len());
        part.copy_from_slice(bytes);
        rest = after;
    }
    Ok(&buffer[..bytes as usize])
}

/// The operation of a request. The stack decides whether the QP supports it.
fn operation(wr: &IbvSendWr) -> Result<SendOp, Errno> {
    let rdma = || {
        let Rdma { remote_addr, rkey } = wr.rdma();
        RemoteAddr {
            addr: remote_addr,
            rkey,
        }
    };
    let imm = u32::from_be(wr.imm_data);
    Ok(match wr.opcode {
        WR_SEND => SendOp::Send,
        WR_SEND_WITH_IMM => SendOp::SendImm(imm),
        WR_SEND_WITH_INV => SendOp::SendInvalidate(wr.imm_data),
        WR_RDMA_WRITE => SendOp::Write(rdma()),
        WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm(rdma(), imm),
        WR_RDMA_READ => SendOp::Read(rdma()),
        WR_ATOMIC_CMP_AND_SWP | WR_ATOMIC_FETCH_AND_ADD => atomic(wr),
        WR_ATOMIC_WRITE => SendOp::AtomicWrite(rdma()),
        WR_LOCAL_INV => SendOp::LocalInv(wr.imm_data),
        WR_BIND_MW => {
            let Bind {
                mw,
                rkey,
                bind_info,
            } = wr.bind_mw;
            mw.get()?.bind(rkey, &bind_info)?
        }
        // Opcodes of raw packets and of drivers.
        opcode => {
            return Err(with_reason(Errno::EOPNOTSUPP, || {
                format!("opcode is {opcode}, which no RC, UC, UD or XRC QP supports")
            }));
        }
    })
}

fn atomic(wr: &IbvSendWr) -> SendOp {
    let Atomic {
        remote_addr,
        compare_add,
        swap,
        rkey,
    } = wr.atomic();
    let remote = RemoteAddr {
        addr: remote_addr,
        rkey,
    };
    if wr.opcode == WR_ATOMIC_CMP_AND_SWP {
        SendOp::CompareSwap {
            remote,
            compare: compare_add,
            swap,
        }
    } else {
        SendOp::FetchAdd {
            remote,
            add: compare_add,
        }
    }
}

/// The target of a request. Only a SEND has the fields of a datagram's.
fn target(qp: &Qp, wr: &IbvSendWr, op: &SendOp) -> Result<Target, Errno> {
    match (qp.kind, op) {
        (QpKind::XrcInitiator, _) => Ok(Srqn::from_bits(wr.qp_type).into()),
        (QpKind::Ud, SendOp::Send | SendOp::SendImm(_)) => {
            let Datagram {
                ah,
                remote_qpn,
                remote_qkey,
            } = wr.datagram();
            let qpn = Qpn::new(remote_qpn).ok_or_else(|| {
                with_reason(Errno::EINVAL, || {
                    format!("remote_qpn is {remote_qpn:#x}, and must fit in 24 bits")
                })
            })?;
            Ok(qp.destination(ah, qpn, QKey(remote_qkey))?.into())
        }
        _ => Ok(Target::Peer),
    }
}

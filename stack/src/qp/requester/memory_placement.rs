//! FLUSH and ATOMIC WRITE (IBTA 1.7, Annex A19): one packet each, with a response of its own, like
//! a zero-length READ.

use super::packets::{SendCursor, Sent, bth};
use super::{Requester, SendWqe};
use crate::qp::emit::{EmitError, emit};
use crate::qp::{Core, Cx, sgl};
use crate::transmit::Transmit;
use crate::wr::SendOp;
use roce_wire::{ExtHeaders, Feth, Opcode, PacketRepr, Reth};

/// Bytes of an ATOMIC WRITE.
const WORD: u32 = 8;

impl Requester {
    /// Sends a FLUSH or an ATOMIC WRITE.
    pub(super) fn send_placement(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        cursor: SendCursor,
    ) -> Result<Sent, EmitError> {
        let (opcode, flush, remote, dma_len, payload) = match wqe.request.op {
            SendOp::Flush(flush) => {
                let feth = Feth {
                    placement: flush.placement,
                    selectivity: flush.selectivity,
                };
                (Opcode::RC_FLUSH, Some(feth), flush.remote, flush.len, 0)
            }
            SendOp::AtomicWrite(remote) => (Opcode::RC_ATOMIC_WRITE, None, remote, WORD, WORD),
            _ => return Ok(Sent::request(1)),
        };
        let ext = ExtHeaders {
            xrceth: wqe.xrceth(),
            flush,
            reth: Some(Reth {
                va: remote.addr,
                rkey: remote.rkey,
                dma_len,
            }),
            ..ExtHeaders::NONE
        };
        let mut bth = bth(core, opcode, cursor.at);
        bth.ack_req = true;
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let source = self.sq.source(cursor.index);
        let repr = PacketRepr { bth, ext };
        emit(
            cx,
            port,
            path,
            core.qpn,
            &repr,
            payload as usize,
            |cx, packet| {
                sgl::fetch(&cx.nic.memory, core.pd, source, 0, packet)?;
                if flush.is_some() && self.flush_as_soft_roce {
                    packet.cover_headers_again();
                }
                Ok(())
            },
        )?;
        Ok(Sent::request(1))
    }
}

//! FLUSH and ATOMIC WRITE (IBTA 1.7, Annex A19).
//!
//! Requests are executed one after the other, so all WRITEs before a FLUSH are in memory when it is
//! executed; a fence makes them visible to every thread. Both operations have the same response as
//! a READ of no bytes, and occupy a responder resource like it.

use super::persist::needed_rights;
use super::reply_queue::Reply;
use super::{Denial, Refusal, Responder, cause};
use crate::cause::Cause;
use crate::counters::DropReason;
use crate::memory::{Access, AccessError, PdId};
use crate::qp::{Core, Cx};
use crate::seq::Seq;
use core::sync::atomic::{Ordering, fence};
use roce_wire::{Feth, FlushPlacement, FlushSelectivity, Packet, Qpn, Reth};

impl Responder {
    /// Executes a FLUSH.
    pub(super) fn execute_flush(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        let (Some(feth), Some(reth)) = (packet.ext.flush, packet.ext.reth) else {
            return Err(cause::unsupported(cx, packet));
        };
        let opcode = packet.bth.opcode;
        let rights = needed_rights(&feth);
        let enabled = core.config.access.contains(rights);
        if self.inbound.is_some() || !enabled || !is_legal(&feth) || !self.replies.has_room() {
            let illegal = Cause::Unsupported { opcode };
            return Err(self.invalid_fetch(cx, core, packet, rights, illegal));
        }
        // rule: A19-flush-rights
        if rights.contains(Access::FLUSH_PERSISTENT) {
            fence(Ordering::SeqCst);
            return self.execute_persist(cx, core, packet, (&feth, &reth), rights);
        }
        let pd = self.rq.remote_pd(core);
        if let Err(error) = check_flush(cx, (pd, core.qpn), &feth, &reth) {
            let access = (reth.rkey, reth.va, u64::from(reth.dma_len));
            cause::name_denied(cx, opcode, access, rights, error);
            return Err(Refusal::AccessError.into());
        }
        // rule: A19-flush-global
        fence(Ordering::SeqCst);
        self.answer_placement(pd);
        Ok(())
    }

    /// Executes an ATOMIC WRITE.
    pub(super) fn execute_atomic_write(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        let (Some(reth), Ok(word)) = (packet.ext.reth, packet.payload.try_into()) else {
            return Err(cause::unsupported(cx, packet));
        };
        let opcode = packet.bth.opcode;
        let enabled = core.config.access.contains(Access::REMOTE_WRITE);
        // rule: A19-atomic-write-aligned
        let legal = reth.dma_len == 8 && reth.va % 8 == 0;
        if self.inbound.is_some() || !enabled || !legal || !self.replies.has_room() {
            let illegal = match reth.dma_len {
                8 => Cause::Misaligned {
                    opcode,
                    addr: reth.va,
                },
                _ => Cause::WrongLength {
                    opcode,
                    len: packet.payload.len(),
                    mtu: core.config.mtu(),
                },
            };
            return Err(self.invalid_fetch(cx, core, packet, Access::REMOTE_WRITE, illegal));
        }
        let pd = self.rq.remote_pd(core);
        // rule: A19-atomic-write-rights
        let rights = Access::REMOTE_WRITE;
        let target = cx
            .nic
            .memory
            .remote(pd, core.qpn, reth.rkey, reth.va, 8, rights);
        // rule: A19-atomic-write-once
        // rule: A19-atomic-write-order
        let placed = target.and_then(|target| {
            let stored = target.store(u64::from_ne_bytes(word));
            stored.ok_or(AccessError::Fault)
        });
        if let Err(error) = placed {
            cause::name_denied(cx, opcode, (reth.rkey, reth.va, 8), rights, error);
            return Err(Refusal::AccessError.into());
        }
        self.answer_placement(pd);
        Ok(())
    }

    /// Answers a duplicate without executing it again. The effect of the original still holds: the
    /// WRITEs before a FLUSH are visible, or durable if it was to persistence, and the word of an ATOMIC WRITE was placed. Placing the
    /// word again might overwrite that of a later ATOMIC WRITE.
    pub(super) fn repeat_placement(&mut self, cx: &mut Cx<'_>, core: &Core, at: Seq) {
        // rule: A19-flush-duplicate
        if !self.resources.was_placement(at) {
            return cx.drop(DropReason::StaleDuplicate);
        }
        fence(Ordering::SeqCst);
        // The reply touches no memory, so its domain does not matter.
        let pd = core.pd;
        if !self.replies.repeat(empty_reply(at, pd, self.msn)) {
            cx.drop(DropReason::StaleDuplicate);
        }
    }

    pub(super) fn answer_placement(&mut self, pd: PdId) {
        let at = self.epsn;
        self.epsn = at.next();
        self.count_message();
        // rule: A19-flush-resource
        self.resources.note_placement(at);
        // rule: A19-flush-response
        // rule: A19-atomic-write-response
        self.replies.push(empty_reply(at, pd, self.msn));
    }
}

/// A READ response of no bytes.
fn empty_reply(at: Seq, pd: PdId, msn: u32) -> Reply {
    Reply::Read {
        at,
        end: at.next(),
        pd,
        reth: Reth::default(),
        offset: 0,
        msn,
    }
}

/// Whether the FLUSH requests a placement, and neither a reserved placement nor a reserved
/// selectivity.
fn is_legal(feth: &Feth) -> bool {
    let known = FlushPlacement::GLOBAL_VISIBILITY.union(FlushPlacement::PERSISTENCE);
    feth.placement != FlushPlacement::NONE
        && known.contains(feth.placement)
        && !matches!(feth.selectivity, FlushSelectivity::Reserved(_))
}

/// Checks that the peer may flush the range or region that it names.
fn check_flush(
    cx: &Cx<'_>,
    (pd, qpn): (PdId, Qpn),
    feth: &Feth,
    reth: &Reth,
) -> Result<(), AccessError> {
    let rights = Access::FLUSH_GLOBAL;
    // rule: A19-flush-range
    if feth.selectivity == FlushSelectivity::Region {
        return cx.nic.memory.remote_key(pd, qpn, reth.rkey, rights);
    }
    let len = u64::from(reth.dma_len);
    cx.nic
        .memory
        .remote(pd, qpn, reth.rkey, reth.va, len, rights)
        .map(drop)
}

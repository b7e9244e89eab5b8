//! FLUSH to persistence (IBTA 1.7, Annex A19).
//!
//! If the memory takes long to become durable, the FLUSH stays at `epsn` until it is. Requests
//! behind it are kept as if they were behind a gap, but cause no NAK. Those that find no room are
//! requested again afterwards. Copies of the FLUSH are dropped: it is answered when it is done.

use super::{Denial, Refusal, Responder, cause};
use crate::cause::Cause;
use crate::memory::{Access, NotDurable, PdId, Stretch};
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use roce_wire::{Feth, FlushPlacement, FlushSelectivity, Opcode, Packet, Reth};

/// The FLUSH at `epsn`, whose memory is becoming durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persisting {
    /// The number of the request to the driver.
    number: u64,
    opcode: Opcode,
    pd: PdId,
    /// The last request behind it that was dropped.
    dropped: Option<Seq>,
}

impl Responder {
    /// Executes a FLUSH to persistence, whose rights the QP has.
    pub(super) fn execute_persist(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        (feth, reth): (&Feth, &Reth),
        rights: Access,
    ) -> Result<(), Denial> {
        let (opcode, pd) = (packet.bth.opcode, self.rq.remote_pd(core));
        // rule: A19-flush-range
        let whole = feth.selectivity == FlushSelectivity::Region;
        let range = (!whole).then_some((reth.va, u64::from(reth.dma_len)));
        let found = cx
            .nic
            .memory
            .stretch((pd, core.qpn), reth.rkey, range, rights);
        let stretch = match found {
            Ok(stretch) => stretch,
            Err(error) => {
                let access = (reth.rkey, reth.va, u64::from(reth.dma_len));
                cause::name_denied(cx, opcode, access, rights, error);
                return Err(Refusal::AccessError.into());
            }
        };
        // rule: A19-flush-persistent
        if stretch.durable.blocks(stretch.len) {
            self.persisting = Some(Persisting {
                number: cx.nic.persists.push(cx.handle, stretch),
                opcode,
                pd,
                dropped: None,
            });
            return Ok(());
        }
        let Stretch { offset, len, .. } = stretch;
        match stretch.durable.persist(offset, len) {
            Ok(()) => {
                self.answer_placement(pd);
                Ok(())
            }
            Err(NotDurable) => Err(not_durable(cx, opcode)),
        }
    }

    /// Ends the FLUSH that waits for the request with this number. Ignores requests of which the QP
    /// knows nothing any more.
    pub(crate) fn finish_persist(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        number: u64,
        result: Result<(), NotDurable>,
    ) -> Result<(), QpFailure> {
        let done = self.persisting.take_if(|done| done.number == number);
        let Some(done) = done else { return Ok(()) };
        match result {
            Ok(()) => self.answer_placement(done.pd),
            Err(NotDurable) => {
                let denial = not_durable(cx, done.opcode);
                return self.deny(cx, core, denial);
            }
        }
        self.catch_up(cx, core)?;
        let missing = done.dropped.filter(|dropped| *dropped >= self.epsn);
        match &mut self.persisting {
            Some(next) => next.dropped = next.dropped.max(missing),
            None if missing.is_some() => self.request_missing(),
            None => {}
        }
        Ok(())
    }

    /// Whether a FLUSH waits until its memory is durable.
    pub(super) fn is_persisting(&self) -> bool {
        self.persisting.is_some()
    }

    /// Notes that a request behind the waiting FLUSH was dropped.
    pub(super) fn note_dropped(&mut self, at: Seq) {
        if let Some(waiting) = &mut self.persisting {
            waiting.dropped = waiting.dropped.max(Some(at));
        }
    }
}

/// A FLUSH whose memory could not be made durable.
#[cold]
fn not_durable(cx: &mut Cx<'_>, opcode: Opcode) -> Denial {
    cx.observe.failed(Cause::NotDurable { opcode });
    Denial::NotDurable
}

/// The rights that a FLUSH with this header needs.
pub(super) fn needed_rights(feth: &Feth) -> Access {
    let needs = [
        (FlushPlacement::GLOBAL_VISIBILITY, Access::FLUSH_GLOBAL),
        (FlushPlacement::PERSISTENCE, Access::FLUSH_PERSISTENT),
    ];
    let asked = needs
        .iter()
        .filter(|(placement, _)| feth.placement.contains(*placement));
    asked.map(|(_, right)| *right).collect()
}

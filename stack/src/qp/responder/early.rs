//! Requests that came before their turn: kept, and executed once the gap before them
//! has closed, as if they came only then. Nobody can tell but by the acknowledgement,
//! which then reaches beyond what was sent again.

use super::Responder;
use crate::counters::{DropReason, Stat};
use crate::qp::early::Kept;
use crate::qp::{Core, Cx, Fault};
use crate::seq::Seq;
use core::cmp::Ordering;
use core::hint::cold_path;
use roce_wire::Packet;

impl Responder {
    /// A request behind a gap. The peer learns of the gap once (IBTA 1.7, 9.7.5.2.8).
    pub(super) fn receive_early(&mut self, cx: &mut Cx<'_>, at: Seq, packet: &Packet<'_>) {
        // After an RNR NAK the peer sends everything again.
        let kept = if self.not_ready {
            Kept::No
        } else {
            cx.early.keep(&mut self.early, self.epsn, at, packet)
        };
        match kept {
            Kept::New => cx.counters.count(Stat::EarlyKept),
            Kept::Already => {
                cx.counters.drop(DropReason::DuplicateEarly);
                if packet.bth.ack_req {
                    self.say_again(cx);
                }
            }
            Kept::No => cx.counters.drop(DropReason::OutOfSequence),
        }
        // rule: 9.7.5.2-sequence-nak-once
        if !self.refused {
            self.refused = true;
            self.replies.sequence_nak(self.epsn);
        }
    }

    /// Executes what was kept, up to the next gap, of which the peer learns now.
    // rule: 9.7.4.1.1-early
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), Fault> {
        while let Some(first) = cx.early.first(&self.early) {
            cold_path();
            if self.not_ready {
                self.release_early(cx);
                return Ok(());
            }
            if first > self.epsn {
                self.refused = true;
                self.replies.sequence_nak(self.epsn);
                return Ok(());
            }
            let Some(early) = cx.early.take(&mut self.early) else {
                return Ok(());
            };
            let result = match first.cmp(&self.epsn) {
                // rule: 9.5-executed-in-order
                Ordering::Equal => self.execute(cx, core, &early.packet()),
                // A READ before it owns its PSN.
                _ => {
                    cx.counters.drop(DropReason::DuplicateEarly);
                    Ok(())
                }
            };
            cx.early.give_back(early);
            result?;
        }
        Ok(())
    }

    /// The peer repeats what has arrived, so it may not have got the answer to that:
    /// tells it again, but once only, what is missing.
    pub(super) fn say_again(&mut self, cx: &Cx<'_>) {
        if self.said_again != Some(self.epsn) && cx.early.first(&self.early).is_some() {
            self.said_again = Some(self.epsn);
            self.replies.sequence_nak(self.epsn);
        }
    }

    /// Drops everything that was kept.
    pub(crate) fn release_early(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..cx.early.release(&mut self.early) {
            cx.counters.drop(DropReason::OutOfSequence);
        }
    }
}

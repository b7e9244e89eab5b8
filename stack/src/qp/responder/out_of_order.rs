//! Out-of-order requests: kept until the gap before them has closed, and then executed as if they
//! had just arrived. The only difference that the peer sees is an acknowledgement that covers more
//! than it retransmitted.

use super::Responder;
use crate::counters::{DropReason, Stat};
use crate::qp::reorder::Kept;
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use core::cmp::Ordering;
use core::hint::cold_path;
use roce_wire::Packet;

impl Responder {
    /// Handles a request behind a gap. The first one behind each gap causes a NAK (IBTA 1.7,
    /// 9.7.5.2.8).
    pub(super) fn receive_out_of_order(&mut self, cx: &mut Cx<'_>, at: Seq, packet: &Packet<'_>) {
        // After an RNR NAK, the peer retransmits everything.
        let kept = if self.not_ready {
            Kept::Dropped
        } else {
            cx.reorder
                .keep(&mut self.out_of_order, self.epsn, at, packet)
        };
        match kept {
            Kept::Stored => cx.counters.count(Stat::OutOfOrderKept),
            Kept::Duplicate => {
                cx.counters.drop(DropReason::DuplicateOutOfOrder);
                if packet.bth.ack_req {
                    self.repeat_nak(cx);
                }
            }
            Kept::Dropped => cx.counters.drop(DropReason::OutOfSequence),
        }
        // rule: 9.7.5.2-sequence-nak-once
        if !self.nak_sent {
            self.nak_sent = true;
            self.replies.sequence_nak(self.epsn);
        }
    }

    /// Executes the kept requests up to the next gap, and sends a NAK for that gap.
    // rule: 9.7.4.1.1-early
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        while let Some(first) = cx.reorder.first(&self.out_of_order) {
            cold_path();
            if self.not_ready {
                self.release_out_of_order(cx);
                return Ok(());
            }
            if first > self.epsn {
                self.nak_sent = true;
                self.replies.sequence_nak(self.epsn);
                return Ok(());
            }
            let Some(packet) = cx.reorder.take(&mut self.out_of_order) else {
                return Ok(());
            };
            let result = match first.cmp(&self.epsn) {
                // rule: 9.5-executed-in-order
                Ordering::Equal => self.execute(cx, core, &packet.as_packet()),
                // A kept READ before it covers this PSN.
                _ => {
                    cx.counters.drop(DropReason::DuplicateOutOfOrder);
                    Ok(())
                }
            };
            cx.reorder.give_back(packet);
            result?;
        }
        Ok(())
    }

    /// Repeats the sequence NAK, but only once for each gap. The responder calls this when the peer
    /// retransmits a packet that has arrived, because the first NAK may have been lost.
    pub(super) fn repeat_nak(&mut self, cx: &Cx<'_>) {
        if self.nak_repeated_for != Some(self.epsn)
            && cx.reorder.first(&self.out_of_order).is_some()
        {
            self.nak_repeated_for = Some(self.epsn);
            self.replies.sequence_nak(self.epsn);
        }
    }

    /// Drops all kept requests.
    pub(crate) fn release_out_of_order(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..cx.reorder.release(&mut self.out_of_order) {
            cx.counters.drop(DropReason::OutOfSequence);
        }
    }
}

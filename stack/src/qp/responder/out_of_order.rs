//! Out-of-order requests: kept until the gap before them has closed, and then executed as if they
//! had just arrived. The only difference that the peer sees is an acknowledgement that covers more
//! than it retransmitted.
//!
//! An attacker that does not know the expected PSN can still forge a request that is kept, since
//! many PSNs are kept, until the QP is on guard ([`suspicion`](crate::qp::suspicion)). So a kept
//! request is only ever executed or dropped, and a dropped one is requested again by a sequence
//! NAK:
//!
//! - If a second copy of it differs, neither copy is executed.
//! - If it can't be executed when its turn comes, it is dropped, with everything kept behind it.
//!   Only a request that arrives in order is refused, or gets an RNR NAK.

use super::{Denial, Responder};
use crate::counters::{DropReason, Stat};
use crate::observe::Verdict;
use crate::qp::reorder::{BufferedPacket, Kept};
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use core::hint::cold_path;
use roce_wire::Packet;

/// The fate of a kept request whose turn has come.
enum Outcome {
    /// It was executed, or need not be.
    Done,
    /// It was dropped, and must arrive again.
    Missing,
}

impl Responder {
    /// Handles a request behind a gap. The first one behind each gap causes a NAK (IBTA 1.7,
    /// 9.7.5.2.8).
    pub(super) fn receive_out_of_order(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        port: u16,
        packet: &Packet<'_>,
    ) {
        // After an RNR NAK, the peer retransmits everything.
        let kept = if self.not_ready || !self.suspicion.may_keep(cx.now, core, port) {
            Kept::Dropped
        } else {
            let queue = &mut self.out_of_order;
            cx.nic
                .reorder
                .keep(cx.now, &mut cx.nic.counters, queue, self.epsn, at, packet)
        };
        match kept {
            Kept::Stored => {
                cx.nic.counters.count(Stat::OutOfOrderKept);
                cx.observe.verdict(Verdict::KeptOutOfOrder);
            }
            Kept::Duplicate => self.receive_copy(cx, at, packet),
            Kept::Dropped => cx.drop(DropReason::OutOfSequence),
        }
        if self.is_persisting() {
            if matches!(kept, Kept::Dropped) {
                self.note_dropped(at);
            }
            return;
        }
        // rule: 9.7.5.2-sequence-nak-once
        if !self.nak_sent {
            self.request_missing();
        }
    }

    /// Handles a second copy of a kept request. If the two differ, the responder can't know which
    /// one is the peer's, so it executes neither.
    fn receive_copy(&mut self, cx: &mut Cx<'_>, at: Seq, packet: &Packet<'_>) {
        let differs = cx.nic.reorder.dispute(&self.out_of_order, at, packet);
        cx.drop(if differs {
            DropReason::OutOfOrderDisputed
        } else {
            DropReason::DuplicateOutOfOrder
        });
        if packet.bth.ack_req {
            self.repeat_nak(cx);
        }
    }

    /// Executes the kept requests up to the next gap, and sends a NAK for that gap.
    // rule: 9.7.4.1.1-early
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        while let Some(first) = cx.nic.reorder.first(&self.out_of_order) {
            cold_path();
            if self.is_persisting() {
                return Ok(());
            }
            if self.not_ready {
                self.release_out_of_order(cx);
                return Ok(());
            }
            if cx.nic.reorder.has_expired(cx.now, &self.out_of_order) {
                self.drop_kept(cx, DropReason::OutOfOrderExpired);
                self.request_missing();
                return Ok(());
            }
            if first > self.epsn {
                self.request_missing();
                return Ok(());
            }
            let Some(packet) = cx.nic.reorder.take(cx.now, &mut self.out_of_order) else {
                return Ok(());
            };
            let outcome = self.execute_kept(cx, core, first, &packet);
            cx.nic.reorder.give_back(packet);
            if matches!(outcome?, Outcome::Missing) {
                self.request_missing();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Executes a kept request whose turn has come.
    fn execute_kept(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        kept: &BufferedPacket,
    ) -> Result<Outcome, QpFailure> {
        if at < self.epsn {
            // A kept READ before it covers this PSN.
            cx.drop_kept(1, DropReason::DuplicateOutOfOrder);
            return Ok(Outcome::Done);
        }
        if kept.is_disputed() {
            cx.drop_kept(1, DropReason::OutOfOrderDisputed);
            return Ok(Outcome::Missing);
        }
        // rule: 9.5-executed-in-order
        match self.execute(cx, core, &kept.as_packet()) {
            Ok(()) => Ok(Outcome::Done),
            Err(Denial::Failed(failure)) => Err(failure),
            Err(_) => {
                cx.drop_kept(1, DropReason::OutOfSequence);
                self.release_out_of_order(cx);
                Ok(Outcome::Missing)
            }
        }
    }

    /// Sends a NAK for the request at `epsn`, which is missing.
    pub(super) fn request_missing(&mut self) {
        self.nak_sent = true;
        self.replies.sequence_nak(self.epsn);
    }

    /// Repeats the sequence NAK, but only once for each gap. The responder calls this when the peer
    /// retransmits a packet that has arrived, because the first NAK may have been lost.
    pub(super) fn repeat_nak(&mut self, cx: &Cx<'_>) {
        if self.nak_repeated_for != Some(self.epsn)
            && !self.is_persisting()
            && cx.nic.reorder.first(&self.out_of_order).is_some()
        {
            self.nak_repeated_for = Some(self.epsn);
            self.replies.sequence_nak(self.epsn);
        }
    }

    /// Drops all kept requests.
    pub(crate) fn release_out_of_order(&mut self, cx: &mut Cx<'_>) {
        self.drop_kept(cx, DropReason::OutOfSequence);
    }

    fn drop_kept(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
        let packets = cx.nic.reorder.release(&mut self.out_of_order);
        if packets > 0 {
            cx.drop_kept(packets, reason);
        }
    }
}

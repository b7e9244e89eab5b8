//! Out-of-order responses: kept until the missing ones before them have arrived, and then handled
//! as if they had just arrived. Until then they change neither memory nor completions.
//!
//! A response, or an acknowledgement, with a later PSN than the expected one shows that the
//! expected response was lost (IBTA 1.7, 9.7.5.2.4). The requester requests only the missing
//! responses: it may request any part of a READ again (9.7.5.1.3). The requester closes one gap
//! after the other, the oldest first, because some responders, such as Soft-RoCE, do not answer a
//! request for a part after they have repeated a later part.

use super::Requester;
use crate::counters::{DropReason, Stat};
use crate::observe::Verdict;
use crate::qp::reorder::{Kept, ReorderQueue};
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use crate::wr::WcStatus;
use core::hint::cold_path;
use roce_wire::Packet;

/// Out-of-order responses, and the known gaps.
#[derive(Debug, Default)]
pub(super) struct OutOfOrderResponses {
    queue: ReorderQueue,
    /// One past the newest PSN that the peer is known to have executed, while responses before it
    /// are missing.
    reached: Option<Seq>,
    /// The newest repeated request for missing responses.
    asked: Option<Asked>,
    /// A request that the peer misses, according to a NAK, while responses before it are missing,
    /// too. The missing responses are requested first.
    nak: Option<Seq>,
}

/// A repeated request for the responses `missing .. end`.
///
/// A packet that arrives afterwards may have been sent before the request arrived. It shows that a
/// missing response was lost again only if the peer sent it after that response. The peer answers
/// in order, and the network is assumed to keep the order. So there are three cases:
///
/// - The packet answers one that was sent after the request: its PSN is `max` or later.
/// - It is one of the requested responses, and `missing` has arrived. The peer has answered the
///   request up to this packet, so any response that is still missing before it was lost.
/// - It is one of the requested responses, and its PSN is at most `witness`. The original came no
///   later than the witness, or was lost. So the packet is the repeated one, and the peer had sent
///   the repeated `missing` before it.
///
/// Acknowledgements count only in the first case: a peer may send one for each duplicate (Soft-RoCE
/// does), all with the PSN of its newest packet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    missing: Seq,
    end: Seq,
    /// One past the newest PSN that had been sent before the request.
    max: Seq,
    /// The PSN of the packet that showed that responses are missing.
    witness: Seq,
}

/// The kind of packet that shows that a response is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A positive acknowledgement or a NAK. A peer may send several acknowledgements with one PSN.
    Ack,
    /// A response that is kept.
    Kept,
    /// A response that was dropped for lack of room.
    Dropped,
}

impl OutOfOrderResponses {
    /// Forgets everything except the kept responses.
    pub(super) fn clear(&mut self) {
        self.reached = None;
        self.forget_asked();
        self.nak = None;
    }

    /// Forgets the last repeated request, after a timeout: any packet behind a gap then counts as
    /// new evidence.
    pub(super) fn forget_asked(&mut self) {
        self.asked = None;
    }

    /// Notes that everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, una: Seq) {
        self.reached = self.reached.filter(|reached| *reached > una);
        self.nak = self.nak.filter(|nak| *nak >= una);
    }

    /// Notes that the peer misses the request at `at`.
    pub(super) fn note_nak(&mut self, at: Seq) {
        self.nak = Some(at);
    }

    fn reach(&mut self, end: Seq) {
        self.reached = self.reached.max(Some(end));
    }

    /// Whether a packet at `at` is new evidence that the response at `missing` was lost.
    fn is_new_evidence(&self, missing: Seq, at: Seq, evidence: Evidence) -> bool {
        let Some(asked) = self.asked.filter(|asked| missing < asked.end) else {
            return true;
        };
        let again = missing != asked.missing || at <= asked.witness;
        at >= asked.max || evidence != Evidence::Ack && at < asked.end && again
    }
}

impl Requester {
    /// Keeps a response that arrived at `at` while the one at `una` is missing.
    pub(super) fn receive_out_of_order(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        port: u16,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let kept = if self.suspicion.may_keep(cx.now, core, port) {
            let queue = &mut self.out_of_order.queue;
            cx.nic
                .reorder
                .keep(cx.now, &mut cx.nic.counters, queue, self.una, at, packet)
        } else {
            Kept::Dropped
        };
        match kept {
            Kept::Stored => {
                cx.nic.counters.count(Stat::OutOfOrderKept);
                cx.observe.verdict(Verdict::KeptOutOfOrder);
            }
            Kept::Duplicate => cx.drop(DropReason::DuplicateOutOfOrder),
            // rule: 9.7.6.1-response-gap
            Kept::Dropped => cx.drop(DropReason::ResponseGap),
        }
        let evidence = match kept {
            Kept::Dropped => Evidence::Dropped,
            Kept::Stored | Kept::Duplicate => Evidence::Kept,
        };
        self.implied_nak(cx, at, evidence)
    }

    /// Handles the kept responses up to the next gap, and asks for what is missing there.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        if cx.nic.reorder.has_expired(cx.now, &self.out_of_order.queue) {
            self.drop_kept(cx, DropReason::OutOfOrderExpired);
        }
        loop {
            if let Some(reached) = self.out_of_order.reached {
                let open = self.fetches.first_open();
                self.advance(cx, core, open.unwrap_or(reached).min(reached))?;
            }
            // A kept response belongs to an open request, so `una` passes it only here.
            if cx.nic.reorder.first(&self.out_of_order.queue) != Some(self.una) {
                break;
            }
            let queue = &mut self.out_of_order.queue;
            let Some(packet) = cx.nic.reorder.take(cx.now, queue) else {
                break;
            };
            let result = self.place_response(cx, core, &packet.as_packet(), self.una);
            cx.nic.reorder.give_back(packet);
            if result == Err(QpFailure::Send(WcStatus::BadResponse)) {
                // It may be forged, so only a response that arrives in order fails the QP.
                cold_path();
                cx.drop_kept(1, DropReason::ResponseGap);
                self.drop_kept(cx, DropReason::ResponseGap);
                break;
            }
            result?;
        }
        if let Some(reached) = self.out_of_order.reached {
            // If the response at `una` was requested already, it is in flight.
            let known = self
                .out_of_order
                .asked
                .is_some_and(|asked| self.una < asked.end);
            if !known {
                self.implied_nak(cx, reached.prev(), Evidence::Kept)?;
            }
        } else if self.out_of_order.nak == Some(self.una) {
            self.out_of_order.nak = None;
            self.retransmit_missing(cx, None);
        }
        Ok(())
    }

    /// Handles a packet with PSN `at`, which shows that the response at `una` was lost.
    // rule: 9.7.6.1-implied-nak
    pub(super) fn implied_nak(
        &mut self,
        cx: &mut Cx<'_>,
        at: Seq,
        evidence: Evidence,
    ) -> Result<(), QpFailure> {
        let missing = self.una;
        self.out_of_order.reach(at.next());
        if !self.out_of_order.is_new_evidence(missing, at, evidence) {
            return Ok(());
        }
        cx.nic.counters.count(Stat::ImpliedNaks);
        let again = self
            .out_of_order
            .asked
            .is_some_and(|asked| asked.missing == missing);
        // Requesting the same response once more does not use up a retry. If no response arrives,
        // the local ACK timeout uses one.
        if !again && !self.retry.try_again(cx.now) {
            return Err(self.always_lost(cx, missing));
        }
        let mut asked = Asked {
            missing,
            end: at.next(),
            max: self.max,
            witness: at,
        };
        if evidence == Evidence::Dropped && cx.nic.reorder.first(&self.out_of_order.queue).is_none()
        {
            // None of the following responses is kept.
            self.send_window.on_loss();
            self.go_back(missing);
        } else {
            asked.end = self.ask_for_missing(cx);
            self.send_window.on_selective_loss();
            self.clock.on_missing(cx.now, missing);
        }
        self.out_of_order.asked = Some(asked);
        Ok(())
    }

    /// Whether responses are known to be missing.
    pub(super) fn misses_responses(&self) -> bool {
        self.out_of_order.reached.is_some() && self.fetches.first_open() == Some(self.una)
    }

    /// Asks again for the oldest missing responses, and returns where they end.
    pub(super) fn ask_for_missing(&mut self, cx: &mut Cx<'_>) -> Seq {
        let reached = self.out_of_order.reached.unwrap_or(self.una.next());
        let kept = cx
            .nic
            .reorder
            .first(&self.out_of_order.queue)
            .unwrap_or(reached);
        let end = kept.min(reached).min(self.max);
        self.begin_gap(cx, end);
        end
    }

    /// Drops all kept responses.
    pub(crate) fn release_out_of_order(&mut self, cx: &mut Cx<'_>) {
        self.drop_kept(cx, DropReason::ResponseGap);
    }

    /// Drops all kept responses. [`Requester::catch_up`] then asks for them again.
    fn drop_kept(&mut self, cx: &mut Cx<'_>, reason: DropReason) {
        self.out_of_order.forget_asked();
        let packets = cx.nic.reorder.release(&mut self.out_of_order.queue);
        if packets > 0 {
            cx.drop_kept(packets, reason);
        }
    }
}

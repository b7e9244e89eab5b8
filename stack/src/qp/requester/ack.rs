//! Acknowledgements: cumulative ACKs, NAKs, RNR NAKs, and ghost acknowledgements (IBTA 1.7,
//! 9.7.5.1.2 to 9.7.5.1.6 and 9.7.5.2).

use super::Requester;
use super::out_of_order::Evidence;
use crate::cause::Cause;
use crate::counters::{DropReason, Stat};
use crate::qp::{Core, Cx, QpFailure};
use crate::seq::Seq;
use crate::wr::WcStatus;
use core::hint::cold_path;
use roce_wire::{NakCode, Packet, RnrTimer, Syndrome};

impl Requester {
    /// Handles an acknowledge packet whose PSN is `at`.
    pub(super) fn receive_ack(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let Some(aeth) = packet.ext.aeth else {
            return Ok(());
        };
        // A ghost: an acknowledgement of a packet that was never sent (9.7.5.1.4).
        // rule: 9.7.5.1.4-ghost-ack
        if at >= self.max {
            cx.observe.syndrome_of(packet);
            cx.drop(DropReason::GhostAck);
            return Ok(());
        }
        match aeth.syndrome {
            Syndrome::Ack(credits) => {
                cx.nic.counters.count(Stat::AcksReceived);
                // rule: 9.7.7.2-unsolicited-taken
                // An old ACK has no effect. A repetition of the newest ACK may carry new credits.
                // rule: 9.7.6.1-old-ack
                if at >= self.una.prev() {
                    let run = self.recovery.current_run();
                    let before = (self.una, self.credit);
                    // rule: 9.7.6.1-cumulative
                    self.acknowledge_through(cx, core, at)?;
                    self.update_credit(credits);
                    self.learn(cx, run, at);
                    if (self.una, self.credit) == before {
                        cold_path();
                        self.clock.on_duplicate_ack();
                        self.share_slack(cx);
                    }
                }
                Ok(())
            }
            Syndrome::RnrNak(timer) => {
                cx.observe.syndrome_of(packet);
                self.receive_rnr_nak(cx, core, at, timer)
            }
            Syndrome::Nak(code) => {
                cx.observe.syndrome_of(packet);
                self.receive_nak(cx, core, at, code)
            }
            // rule: 9.7.6.1-reserved
            Syndrome::Reserved(_) => {
                cx.observe.syndrome_of(packet);
                cx.drop(DropReason::UnexpectedResponse);
                Ok(())
            }
        }
    }

    /// Notes that the peer has executed everything through `at`. If a READ or atomic before it
    /// still has no response, the response was lost: an implied NAK (9.7.5.2.4). Returns whether
    /// everything through `at` is acknowledged now.
    pub(super) fn acknowledge_through(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
    ) -> Result<bool, QpFailure> {
        // rule: 9.7.6.1-read-not-by-ack
        let open = self.fetches.first_open().filter(|open| *open <= at);
        let to = open.unwrap_or(at.next());
        self.advance(cx, core, to)?;
        if open.is_some() {
            self.implied_nak(cx, at, Evidence::Ack)?;
        }
        Ok(open.is_none())
    }

    /// Handles "receiver not ready" for the request at `at`: starts the RNR timer, after which the
    /// requester retransmits (9.7.5.2.8).
    fn receive_rnr_nak(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        timer: RnrTimer,
    ) -> Result<(), QpFailure> {
        cx.nic.counters.count(Stat::RnrNaksReceived);
        self.retry.note_nak();
        if !self.acknowledge_before(cx, core, at)? {
            return Ok(());
        }
        // rule: 9.7.5.2.8-rnr-copy
        if self.retry.is_waiting_for_receiver() {
            // Nothing was sent since the first RNR NAK, so this is a copy of it.
            cx.drop(DropReason::DuplicateResponse);
            return Ok(());
        }
        if !self.retry.receiver_not_ready(cx.now, timer) {
            // rule: 9.9.2-rnr-exceeded
            cx.observe.failed(Cause::ReceiverNotReady {
                psn: at.wire(),
                retries: core.config.rnr_retry,
                wait: timer.duration(),
            });
            return Err(QpFailure::Send(WcStatus::RnrRetryExceeded));
        }
        self.clock.stop();
        // rule: 9.7.5.2.8-rnr-resend
        self.go_back(at);
        Ok(())
    }

    /// Handles a NAK of the request at `at`.
    fn receive_nak(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
        code: NakCode,
    ) -> Result<(), QpFailure> {
        let status = match code {
            NakCode::PsnSequenceError => {
                cx.nic.counters.count(Stat::SequenceNaksReceived);
                self.retry.note_nak();
                return self.receive_sequence_nak(cx, core, at);
            }
            // rule: 9.9.2-remote-invalid
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => WcStatus::RemoteInvalidRequest,
            // rule: 9.9.2-remote-access
            NakCode::RemoteAccessError => WcStatus::RemoteAccessError,
            // rule: 9.9.2-remote-operation
            NakCode::RemoteOperationalError => WcStatus::RemoteOperationError,
            // rule: 9.7.6.1-reserved
            NakCode::Reserved(_) => {
                cx.drop(DropReason::UnexpectedResponse);
                return Ok(());
            }
        };
        cx.nic.counters.count(Stat::FatalNaksReceived);
        if self.acknowledge_before(cx, core, at)? {
            return Err(QpFailure::Send(status));
        }
        Ok(())
    }

    /// Handles a NAK for a PSN sequence error: retransmits `at`, which the peer lacks.
    fn receive_sequence_nak(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
    ) -> Result<(), QpFailure> {
        let run = self.recovery.current_run();
        if !self.acknowledge_before(cx, core, at)? {
            // The peer does not repeat the NAK. So the requester keeps it until the responses
            // before it have arrived.
            if at > self.una {
                self.out_of_order.note_nak(at);
            }
            return Ok(());
        }
        if self.is_being_retransmitted(cx) {
            return Ok(());
        }
        if !self.retry.try_again(cx.now) {
            return Err(self.always_lost(cx, at));
        }
        self.retransmit_missing(cx, run);
        Ok(())
    }

    /// Acknowledges everything before `at`, the PSN of a NAK. Returns whether `at` is then the
    /// oldest outstanding packet. If not, the NAK is old, or a response before `at` is missing, and
    /// the implied NAK for it comes first.
    // rule: 9.7.6.1-nak-acks
    fn acknowledge_before(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        at: Seq,
    ) -> Result<bool, QpFailure> {
        // rule: 9.7.6.1-old-nak
        if at < self.una {
            cx.drop(DropReason::DuplicateResponse);
            return Ok(false);
        }
        Ok(at == self.una || self.acknowledge_through(cx, core, at.prev())?)
    }
}

//! The two halves of a QP, by transport service.

use super::attr::QpConfig;
use super::requester::{Feedback, Requester};
use super::responder::Responder;
use super::sender::Sender;
use super::{Core, Cx, QpFailure, QpInit, Receives, Turn, arrivals, uc, ud};
use crate::cause::{Cause, FailedRequest};
use crate::encapsulation::RxMeta;
use crate::ids::{Srqn, XrcdId};
use crate::kind::{QpKind, QpState};
use crate::memory::NotDurable;
use crate::queue::{EntryGuard, PayloadSource};
use crate::time::{Duration, Instant};
use crate::transmit::{Position, Transmit};
use crate::wr::{PostError, RecvRequest, SendRequest, WcStatus};
use roce_wire::Packet;

/// The sending half and the receiving half.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a QP is boxed as a whole, and most QPs are RC"
)]
pub(super) enum Service {
    /// RC, and XRC, whose QPs use one half each.
    Rc {
        requester: Requester,
        responder: Responder,
    },
    Uc {
        sender: Sender,
        receiver: uc::Receiver,
    },
    Ud {
        sender: Sender,
        receiver: ud::Receiver,
    },
}

impl Service {
    pub(super) fn new(init: &QpInit, receives: Receives) -> Self {
        match init.kind {
            QpKind::Rc | QpKind::XrcInitiator | QpKind::XrcTarget => Self::Rc {
                requester: Requester::new(init.send, init.max_inline),
                responder: Responder::new(receives),
            },
            QpKind::Uc => Self::Uc {
                sender: Sender::new(init.send, init.max_inline),
                receiver: uc::Receiver::new(receives),
            },
            QpKind::Ud => Self::Ud {
                sender: Sender::new(init.send, init.max_inline),
                receiver: ud::Receiver::new(receives),
            },
        }
    }

    /// The SRQ that receives come from.
    pub(super) fn srq(&self) -> Option<Srqn> {
        match self {
            Self::Rc { responder, .. } => responder.srq(),
            Self::Uc { receiver, .. } => receiver.rq.srq(),
            Self::Ud { receiver, .. } => receiver.rq.srq(),
        }
    }

    /// The XRC domain whose SRQs requests may name; `None` if the QP is not an XRC target.
    pub(super) fn domain(&self) -> Option<XrcdId> {
        match self {
            Self::Rc { responder, .. } => responder.domain(),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// Init to RTR.
    pub(super) fn start_receiving(&mut self, config: &QpConfig) {
        match self {
            Self::Rc { responder, .. } => responder.start(config),
            Self::Uc { receiver, .. } => receiver.start(config.rq_psn),
            Self::Ud { .. } => {}
        }
    }

    /// RTR to RTS.
    pub(super) fn start_sending(&mut self, cx: &Cx<'_>, config: &QpConfig, window_bytes: usize) {
        match self {
            Self::Rc { requester, .. } => requester.start(config, window_bytes, *cx.slack),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.start(config.sq_psn),
        }
    }

    /// Writes to `config` the present PSNs that have a meaning in `state`.
    pub(super) fn fill_psns(&self, state: QpState, config: &mut QpConfig) {
        if matches!(state, QpState::Reset | QpState::Init) {
            return;
        }
        let has_sent = state != QpState::Rtr;
        let (sent, expected) = match self {
            Self::Rc {
                requester,
                responder,
            } => (requester.next_psn(), Some(responder.expected_psn())),
            Self::Uc { sender, receiver } => (sender.next_psn(), Some(receiver.expected_psn())),
            Self::Ud { sender, .. } => (sender.next_psn(), None),
        };
        if has_sent {
            config.sq_psn = sent;
        }
        config.rq_psn = expected.unwrap_or(config.rq_psn);
    }

    /// Applies attributes that were changed in SQD.
    pub(super) fn reconfigure(&mut self, config: &QpConfig) {
        match self {
            Self::Rc {
                requester,
                responder,
            } => {
                requester.reconfigure(config);
                responder.reconfigure(config);
            }
            Self::Uc { .. } | Self::Ud { .. } => {}
        }
    }

    /// Packets that the peer has not acknowledged yet; 0 for a service without acknowledgements.
    pub(super) fn packets_in_flight(&self) -> u64 {
        match self {
            Self::Rc { requester, .. } => requester.in_flight(),
            _ => 0,
        }
    }

    /// The length of the longest request that the peer has answered; 0 for a service without answers.
    pub(super) fn longest_answered(&self) -> u32 {
        match self {
            Self::Rc { requester, .. } => requester.longest_answered(),
            _ => 0,
        }
    }

    /// The position before which the port may release all packets; `None` if it keeps none.
    pub(super) fn take_acknowledged(&mut self) -> Option<Position> {
        match self {
            Self::Rc { requester, .. } => requester.take_acknowledged(),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// Ends the flow: nothing that was sent is retransmitted any more. Returns whether the port
    /// keeps any packet of it.
    pub(super) fn end_flow(&mut self) -> bool {
        match self {
            Self::Rc { requester, .. } => requester.end_flow(),
            Self::Uc { .. } | Self::Ud { .. } => false,
        }
    }

    /// Drops the out-of-order packets that it keeps in the NIC's pool.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>) {
        if let Self::Rc {
            requester,
            responder,
        } = self
        {
            requester.release_out_of_order(cx);
            responder.release_out_of_order(cx);
        }
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        match self {
            Self::Rc {
                requester,
                responder,
            } => {
                requester.reset();
                responder.reset();
            }
            Self::Uc { sender, receiver } => {
                sender.reset();
                receiver.rq.clear();
                receiver.abandon();
            }
            Self::Ud { sender, receiver } => {
                sender.reset();
                receiver.rq.clear();
            }
        }
    }

    /// Checks a send request without posting it.
    pub(super) fn check_send(
        &self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<(), PostError> {
        match self {
            Self::Rc { requester, .. } => requester.check(core, request, source)?,
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => {
                sender.check(core, request, source)?
            }
        };
        Ok(())
    }

    /// Appends a request to the send queue. Returns its length.
    pub(super) fn post_send(
        &mut self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
        match self {
            Self::Rc { requester, .. } => requester.post(core, request, source),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.post(core, request, source),
        }
    }

    /// Checks a receive request without posting it.
    pub(super) fn check_recv(&self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        match self {
            Self::Rc { responder, .. } => responder.check(wr),
            Self::Uc { receiver, .. } => receiver.rq.check(wr),
            Self::Ud { receiver, .. } => receiver.rq.check(wr),
        }
    }

    /// Appends a request to the receive queue.
    pub(super) fn post_recv(&mut self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        match self {
            Self::Rc { responder, .. } => responder.post(wr),
            Self::Uc { receiver, .. } => receiver.rq.post(wr),
            Self::Ud { receiver, .. } => receiver.rq.post(wr),
        }
    }

    /// The number of requests that have not completed: (sends, receives).
    pub(super) fn queued(&self) -> (usize, usize) {
        match self {
            Self::Rc {
                requester,
                responder,
            } => (requester.len(), responder.len()),
            Self::Uc { sender, receiver } => (sender.len(), receiver.rq.len()),
            Self::Ud { sender, receiver } => (sender.len(), receiver.rq.len()),
        }
    }

    /// The [`EntryGuard`]s of a request that completes as soon as it is posted: (send, receive).
    pub(super) fn entry_guards(&self) -> (EntryGuard, Option<EntryGuard>) {
        match self {
            Self::Rc {
                requester,
                responder,
            } => (requester.entry_guard(), responder.entry_guard()),
            Self::Uc { sender, receiver } => (sender.entry_guard(), receiver.rq.entry_guard()),
            Self::Ud { sender, receiver } => (sender.entry_guard(), receiver.rq.entry_guard()),
        }
    }

    /// The oldest send request.
    pub(super) fn oldest_send(&self) -> Option<FailedRequest> {
        match self {
            Self::Rc { requester, .. } => requester.oldest(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.oldest(),
        }
    }

    /// Why the oldest send request fails with this status, if no code has named the cause.
    pub(super) fn cause(&self, cx: &Cx<'_>, core: &Core, status: WcStatus) -> Option<Cause> {
        match self {
            Self::Rc { requester, .. } => requester.cause(cx, core, status),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.cause(cx, core, status),
        }
    }

    /// Handles a packet that the QP's state admits.
    pub(super) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        meta: &RxMeta,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        match self {
            Self::Rc { responder, .. } if packet.bth.opcode.is_request() => {
                responder.receive(cx, core, meta.src_port, packet)
            }
            Self::Rc { requester, .. } => requester.receive(cx, core, meta.src_port, packet),
            Self::Uc { receiver, .. } => receiver.receive(cx, core, meta, packet),
            Self::Ud { receiver, .. } => receiver.receive(cx, core, meta, packet),
        }
    }

    /// Continues with a FLUSH whose memory is durable, or could not be made so.
    pub(super) fn finish_persist(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        number: u64,
        result: Result<(), NotDurable>,
    ) -> Result<(), QpFailure> {
        match self {
            Self::Rc { responder, .. } => responder.finish_persist(cx, core, number, result),
            Self::Uc { .. } | Self::Ud { .. } => Ok(()),
        }
    }

    /// Prefetches what was posted and is sent soon.
    pub(super) fn prefetch_for_turn(&self) {
        match self {
            Self::Rc { requester, .. } => requester.prefetch_for_turn(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.prefetch_for_turn(),
        }
    }

    /// Sends up to `budget` packets of posted requests.
    pub(super) fn transmit_requests(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        match self {
            Self::Rc { requester, .. } => requester.transmit(cx, port, core, budget),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => {
                sender.transmit(cx, port, core, budget)
            }
        }
    }

    /// Sends up to `budget` packets of replies to the peer.
    pub(super) fn transmit_replies(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        match self {
            Self::Rc { responder, .. } => responder.transmit(cx, port, core, budget),
            // rule: 9.8.2-no-acks
            Self::Uc { .. } | Self::Ud { .. } => Ok(Turn::Idle),
        }
    }

    /// Whether posted requests may have something to send.
    pub(super) fn has_requests(&self, core: &Core) -> bool {
        match self {
            Self::Rc { requester, .. } => requester.wants_to_send(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.wants_to_send(core),
        }
    }

    /// Whether a reply to the peer waits to be sent.
    pub(super) fn has_replies(&self) -> bool {
        match self {
            Self::Rc { responder, .. } => responder.wants_to_send(),
            Self::Uc { .. } | Self::Ud { .. } => false,
        }
    }

    /// Whether a NAK to the peer waits to be sent.
    pub(super) fn has_nak(&self) -> bool {
        match self {
            Self::Rc { responder, .. } => responder.has_nak_to_send(),
            Self::Uc { .. } | Self::Ud { .. } => false,
        }
    }

    /// The number of replies to the peer before the first one that carries data, if there is one.
    pub(super) fn replies_before_data(&self) -> Option<usize> {
        match self {
            Self::Rc { responder, .. } => responder.replies_before_data(),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// Whether the next reply to the peer carries data.
    pub(super) fn has_data_to_send(&self) -> bool {
        match self {
            Self::Rc { responder, .. } => responder.has_data_to_send(),
            Self::Uc { .. } | Self::Ud { .. } => false,
        }
    }

    /// Whether the only reply that waits is an acknowledgement.
    pub(super) fn has_only_ack_to_send(&self) -> bool {
        match self {
            Self::Rc { responder, .. } => responder.has_only_ack_to_send(),
            Self::Uc { .. } | Self::Ud { .. } => false,
        }
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Rc { requester, .. } => requester.deadline(),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// Acknowledgements and losses since the last call; `None` for a service without
    /// acknowledgements.
    pub(super) fn take_feedback(&mut self) -> Option<Feedback> {
        match self {
            Self::Rc { requester, .. } => Some(requester.take_feedback()),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// The smoothed and the shortest round trip.
    pub(super) fn round_trips(&self) -> (Option<Duration>, Option<Duration>) {
        match self {
            Self::Rc { requester, .. } => requester.round_trips(),
            Self::Uc { .. } | Self::Ud { .. } => (None, None),
        }
    }

    /// Limits the packets in flight to `packets`, for congestion control.
    pub(super) fn set_congestion_window(&mut self, packets: Option<u64>) {
        if let Self::Rc { requester, .. } = self {
            requester.set_congestion_window(packets);
        }
    }

    /// Resumes after a pause in which nothing could be sent.
    ///
    /// # Errors
    /// If no retry is left.
    pub(super) fn after_pause(&mut self, cx: &mut Cx<'_>) -> Result<(), QpFailure> {
        match self {
            Self::Rc { requester, .. } => requester.after_pause(cx),
            Self::Uc { .. } | Self::Ud { .. } => Ok(()),
        }
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timeout(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        match self {
            Self::Rc { requester, .. } => requester.handle_timeout(cx, core),
            Self::Uc { .. } | Self::Ud { .. } => Ok(()),
        }
    }

    /// Begins to drain in state SQD; [`Service::take_drained`] reports the end.
    pub(super) fn begin_drain(&mut self) {
        match self {
            Self::Rc { requester, .. } => requester.begin_drain(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.begin_drain(),
        }
    }

    /// Whether all requests that were begun have just completed. True once per drain.
    pub(super) fn take_drained(&mut self) -> bool {
        match self {
            Self::Rc { requester, .. } => requester.take_drained(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.take_drained(),
        }
    }

    /// Completes the oldest send with `status`. `Ok(false)` if there is none.
    pub(super) fn complete_send(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<bool, QpFailure> {
        match self {
            Self::Rc { requester, .. } => requester.complete_front(cx, core, status),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => {
                sender.complete_front(cx, core, status)
            }
        }
    }

    /// Flushes the oldest receive. `Ok(false)` if there is none.
    pub(super) fn flush_receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
    ) -> Result<bool, QpFailure> {
        match self {
            Self::Rc { responder, .. } => responder.flush_front(cx, core),
            Self::Uc { receiver, .. } => arrivals::flush(&mut receiver.rq, cx, core),
            Self::Ud { receiver, .. } => arrivals::flush(&mut receiver.rq, cx, core),
        }
    }

    /// Resets the sending half after an error has emptied its queue.
    pub(super) fn stop_sending(&mut self) {
        match self {
            Self::Rc { requester, .. } => requester.reset(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.reset(),
        }
    }

    /// Stops executing requests of the peer. Replies that are queued may still be sent.
    pub(super) fn abandon(&mut self) {
        match self {
            Self::Rc { responder, .. } => responder.abandon(),
            Self::Uc { receiver, .. } => receiver.abandon(),
            Self::Ud { .. } => {}
        }
    }
}

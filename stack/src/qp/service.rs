//! The two halves of a QP, by transport service.

use super::attr::QpConfig;
use super::requester::Requester;
use super::responder::Responder;
use super::sender::Sender;
use super::{Core, Cx, QpFailure, QpInit, Receives, Turn, arrivals, uc, ud};
use crate::cause::{Cause, FailedRequest};
use crate::encapsulation::RxMeta;
use crate::kind::{QpKind, QpState};
use crate::queue::{EntryGuard, PayloadSource};
use crate::transmit::Transmit;
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

/// Calls a method that both kinds of the sending half have.
macro_rules! sending {
    ($service:ident.$method:ident($($argument:expr),*)) => {
        match $service {
            Service::Rc { requester, .. } => requester.$method($($argument),*),
            Service::Uc { sender, .. } | Service::Ud { sender, .. } => {
                sender.$method($($argument),*)
            }
        }
    };
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

    /// The half that sends, if the peer acknowledges what it sends.
    #[inline]
    pub(super) fn requester(&self) -> Option<&Requester> {
        match self {
            Self::Rc { requester, .. } => Some(requester),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    #[inline]
    pub(super) fn requester_mut(&mut self) -> Option<&mut Requester> {
        match self {
            Self::Rc { requester, .. } => Some(requester),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// The half that receives, if it replies to the peer.
    // rule: 9.8.2-no-acks
    #[inline]
    pub(super) fn responder(&self) -> Option<&Responder> {
        match self {
            Self::Rc { responder, .. } => Some(responder),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    #[inline]
    pub(super) fn responder_mut(&mut self) -> Option<&mut Responder> {
        match self {
            Self::Rc { responder, .. } => Some(responder),
            Self::Uc { .. } | Self::Ud { .. } => None,
        }
    }

    /// The receives.
    pub(super) fn receives(&self) -> &Receives {
        match self {
            Self::Rc { responder, .. } => &responder.rq,
            Self::Uc { receiver, .. } => &receiver.rq,
            Self::Ud { receiver, .. } => &receiver.rq,
        }
    }

    pub(super) fn receives_mut(&mut self) -> &mut Receives {
        match self {
            Self::Rc { responder, .. } => &mut responder.rq,
            Self::Uc { receiver, .. } => &mut receiver.rq,
            Self::Ud { receiver, .. } => &mut receiver.rq,
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
            Self::Rc { requester, .. } => requester.start(config, window_bytes, cx.nic.slack),
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

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.stop_sending();
        self.receives_mut().clear();
        match self {
            Self::Rc { responder, .. } => responder.reset(),
            Self::Uc { receiver, .. } => receiver.abandon(),
            Self::Ud { .. } => {}
        }
    }

    /// Checks a send request without posting it. Returns its length.
    pub(super) fn check_send(
        &self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
        sending!(self.check(core, request, source))
    }

    /// Checks that a send request may have `bytes` bytes of inline data. Returns their number.
    pub(super) fn inline_len(&self, bytes: u64) -> Result<usize, PostError> {
        sending!(self.inline_len(bytes))
    }

    /// Appends a request to the send queue. Returns its length.
    pub(super) fn post_send(
        &mut self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
        sending!(self.post(core, request, source))
    }

    /// Appends a request to the receive queue.
    pub(super) fn post_recv(&mut self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        match self {
            Self::Rc { responder, .. } => responder.post(wr),
            Self::Uc { .. } | Self::Ud { .. } => self.receives_mut().post(wr),
        }
    }

    /// The number of send requests that have not completed.
    pub(super) fn sends(&self) -> usize {
        sending!(self.len())
    }

    /// The guard of the queue entry of a send request that completes as soon as it is posted.
    pub(super) fn send_guard(&self) -> EntryGuard {
        sending!(self.entry_guard())
    }

    /// The oldest send request.
    pub(super) fn oldest_send(&self) -> Option<FailedRequest> {
        sending!(self.oldest())
    }

    /// Why the oldest send request fails with this status, if no code has named the cause.
    pub(super) fn cause(&self, cx: &Cx<'_>, core: &Core, status: WcStatus) -> Option<Cause> {
        sending!(self.cause(cx, core, status))
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

    /// Prefetches what was posted and is sent soon.
    pub(super) fn prefetch_for_turn(&self) {
        sending!(self.prefetch_for_turn())
    }

    /// Sends up to `budget` packets of posted requests.
    pub(super) fn transmit_requests(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        sending!(self.transmit(cx, port, core, budget))
    }

    /// Whether posted requests may have something to send.
    pub(super) fn has_requests(&self, core: &Core) -> bool {
        match self {
            Self::Rc { requester, .. } => requester.wants_to_send(),
            Self::Uc { sender, .. } | Self::Ud { sender, .. } => sender.wants_to_send(core),
        }
    }

    /// Limits the packets in flight to `packets`, for congestion control.
    pub(super) fn set_congestion_window(&mut self, packets: Option<u64>) {
        if let Some(requester) = self.requester_mut() {
            requester.set_congestion_window(packets);
        }
    }

    /// Begins to drain in state SQD; [`Service::take_drained`] reports the end.
    pub(super) fn begin_drain(&mut self) {
        sending!(self.begin_drain())
    }

    /// Whether all requests that were begun have just completed. True once per drain.
    pub(super) fn take_drained(&mut self) -> bool {
        sending!(self.take_drained())
    }

    /// Completes the oldest send with `status`. `Ok(false)` if there is none.
    pub(super) fn complete_send(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<bool, QpFailure> {
        sending!(self.complete_front(cx, core, status))
    }

    /// Flushes the oldest receive. `Ok(false)` if there is none.
    pub(super) fn flush_receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
    ) -> Result<bool, QpFailure> {
        arrivals::flush(self.receives_mut(), cx, core)
    }

    /// Resets the sending half after an error has emptied its queue.
    pub(super) fn stop_sending(&mut self) {
        sending!(self.reset())
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

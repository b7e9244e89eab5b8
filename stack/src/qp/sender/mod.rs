//! The sending half of a QP without acknowledgements: UC and UD (IBTA 1.7, 9.8).
//!
//! It splits messages into packets, numbers and sends them, and never retransmits them. A request
//! completes when its last packet has been handed to the port.

mod connected;
mod datagram;

use super::emit::{EmitError, emit};
use super::posted::Posted;
use super::{Core, Cx, QpFailure, Turn, local, sgl};
use crate::cause::{Cause, FailedRequest};
use crate::encapsulation::TxMeta;
use crate::kind::{QpKind, QpState};
use crate::queue::{EntryGuard, PayloadSource, QueueLimits, WorkQueue};
use crate::transmit::Transmit;
use crate::wr::{PostError, SendRequest, Target, WcStatus};
use core::hint::cold_path;
use roce_wire::{PacketRepr, Psn};

/// A posted send request.
#[derive(Clone, Copy, Debug)]
struct SendWqe {
    request: Posted,
    target: Target,
}

/// The next packet of a request.
#[derive(Debug)]
struct NextPacket<'a> {
    path: &'a TxMeta,
    repr: PacketRepr,
    /// Bytes of payload.
    payload: u32,
    /// Whether it is the last of its message.
    is_last: bool,
}

/// The send queue, whose oldest request may be partly sent.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: WorkQueue<SendWqe>,
    /// Bytes of the oldest request that have left.
    offset: u32,
    /// Whether any packet of the oldest request has left.
    begun: bool,
    /// The PSN of the next packet.
    psn: Psn,
    /// The QP has entered state SQD, and its drain has not been reported yet.
    drain_pending: bool,
}

impl Sender {
    pub(crate) fn new(limits: QueueLimits, max_inline: usize) -> Self {
        Self {
            queue: WorkQueue::with_inline(limits, max_inline),
            offset: 0,
            begun: false,
            psn: Psn::new(0),
            drain_pending: false,
        }
    }

    /// The PSN of the next packet.
    pub(crate) fn next_psn(&self) -> Psn {
        self.psn
    }

    /// RTR to RTS.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.reset();
        self.psn = psn;
    }

    /// Forgets everything that was posted.
    pub(crate) fn reset(&mut self) {
        self.queue.clear();
        self.offset = 0;
        self.begun = false;
        self.drain_pending = false;
    }

    /// The guard of the queue entry of a request that completes.
    pub(crate) fn entry_guard(&self) -> EntryGuard {
        self.queue.entry_guard()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// See [`WorkQueue::inline_len`].
    pub(crate) fn inline_len(&self, bytes: u64) -> Result<usize, PostError> {
        self.queue.inline_len(bytes)
    }

    /// Checks a request without posting it. Returns its length.
    pub(crate) fn check(
        &self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
        self.queue.check_source(source)?;
        match core.kind {
            QpKind::Ud => datagram::check(core, request, source),
            _ => connected::check(request, source),
        }
    }

    /// Appends a request to the send queue. Returns its length.
    pub(crate) fn post(
        &mut self,
        core: &Core,
        request: &SendRequest<'_>,
        source: PayloadSource<'_>,
    ) -> Result<u32, PostError> {
        let len = self.check(core, request, source)?;
        let wqe = SendWqe {
            request: Posted::new(core, request, len),
            target: request.target,
        };
        self.queue.push_checked(wqe, source);
        Ok(len)
    }

    /// Whether there is something to send.
    pub(crate) fn wants_to_send(&self, core: &Core) -> bool {
        self.current(core).is_some()
    }

    /// Prefetches what is sent next.
    pub(crate) fn prefetch_for_turn(&self) {
        self.queue.prefetch(0);
    }

    /// The oldest request; in state SQD only if it was begun (IBTA 1.7, 10.3.1.5).
    fn current(&self, core: &Core) -> Option<&SendWqe> {
        let drains = core.state == QpState::Sqd;
        self.queue.front().filter(|_| self.begun || !drains)
    }

    /// Sends up to `budget` packets.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        for _ in 0..budget {
            let Some(wqe) = self.current(core) else {
                return Ok(Turn::Idle);
            };
            let op = wqe.request.op;
            if op.is_local() {
                cold_path();
                // All requests before it have completed.
                local::perform(cx, core, &op)?;
                self.complete_front(cx, core, WcStatus::Success)?;
                continue;
            }
            let Some(next) = self.next_packet(core, wqe) else {
                return Ok(Turn::Idle);
            };
            let (payload, is_last) = (next.payload, next.is_last);
            let (source, offset) = (self.queue.source(0), u64::from(self.offset));
            let sent = emit(
                cx,
                port,
                next.path,
                core.qpn,
                &next.repr,
                payload as usize,
                |cx, out| sgl::fetch(&cx.nic.memory, core.pd, source, offset, out),
            );
            match sent {
                Ok(()) => self.note_sent(cx, core, payload, is_last)?,
                Err(EmitError::Full) => return Ok(Turn::PortFull),
                Err(EmitError::Access(_)) => {
                    return Err(QpFailure::Send(WcStatus::LocalProtectionError));
                }
            }
        }
        Ok(Turn::More)
    }

    /// The oldest request.
    pub(crate) fn oldest(&self) -> Option<FailedRequest> {
        Some(self.queue.front()?.request.failed())
    }

    /// Why the oldest request fails with this status, if no code has named the cause.
    pub(crate) fn cause(&self, cx: &Cx<'_>, core: &Core, status: WcStatus) -> Option<Cause> {
        let wqe = self.queue.front()?;
        (status == WcStatus::LocalProtectionError)
            .then(|| wqe.request.memory_cause(cx, core, self.queue.source(0)))?
    }

    #[inline]
    fn next_packet<'a>(&self, core: &'a Core, wqe: &'a SendWqe) -> Option<NextPacket<'a>> {
        match core.kind {
            QpKind::Ud => datagram::packet(core, wqe, self.psn),
            _ => connected::packet(core, wqe, self.offset, self.psn),
        }
    }

    /// Notes that a packet of the oldest request has left; the last packet completes the request.
    fn note_sent(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        payload: u32,
        is_last: bool,
    ) -> Result<(), QpFailure> {
        // rule: 9.8.2-psn-each
        self.psn = self.psn.next();
        self.offset += payload;
        self.begun = true;
        // rule: 9.8.2-completes-when-sent, 9.8.3-completes-when-sent
        if is_last {
            self.complete_front(cx, core, WcStatus::Success)?;
        }
        Ok(())
    }

    /// Completes the oldest request with `status`. `Ok(false)` if there is none.
    pub(crate) fn complete_front(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<bool, QpFailure> {
        let Some(wqe) = self.queue.pop() else {
            return Ok(false);
        };
        self.offset = 0;
        self.begun = false;
        wqe.request.complete(cx, core, status, &self.queue)?;
        Ok(true)
    }

    /// Begins to drain in state SQD; [`Sender::take_drained`] reports the end.
    pub(crate) fn begin_drain(&mut self) {
        self.drain_pending = true;
    }

    /// Whether all requests that were begun have just completed. True once per drain.
    pub(crate) fn take_drained(&mut self) -> bool {
        let drained = self.drain_pending && !self.begun;
        self.drain_pending &= !drained;
        drained
    }
}

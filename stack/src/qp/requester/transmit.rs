//! Sending: one packet after the other, from the request that owns `nxt`.

use super::packets::{AckReq, SendCursor, Sent, Why};
use super::{Requester, SendWqe};
use crate::counters::Stat;
use crate::kind::QpState;
use crate::qp::emit::EmitError;
use crate::qp::{Core, Cx, QpFailure, Turn};
use crate::seq::Seq;
use crate::transmit::Transmit;
use crate::wr::{SendFlags, SendOp, WcStatus};
use core::hint::cold_path;

/// What to send at a PSN.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The packet of a SEND or WRITE.
    Data(Why),
    /// A request for the responses up to `last` of a READ; `new` if it is not a retransmission.
    Read { last: Seq, new: bool },
    /// An atomic, FLUSH or ATOMIC WRITE.
    Atomic { new: bool },
}

impl Requester {
    /// Sends up to about `budget` packets.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        self.shared_end = self.max + cx.peer_room / core.config.mtu() as u64;
        let mut left = budget;
        while left > 0 {
            left -= 1;
            self.last_of_turn = left == 0;
            if let Some(at) = self.recovery.due() {
                cold_path();
                match self.send_again(cx, port, core, at) {
                    Ok(()) => continue,
                    Err(EmitError::Full) => return Ok(Turn::PortFull),
                    Err(EmitError::Access(_)) if at > self.una => self.recovery.cancel(),
                    Err(EmitError::Access(_)) => {
                        // rule: 9.9.2-local-protection
                        return Err(QpFailure::Send(WcStatus::LocalProtectionError));
                    }
                }
            }
            let Some(wqe) = self.sq.get(self.cursor).copied() else {
                return Ok(Turn::Idle);
            };
            if wqe.request.op.is_local() {
                cold_path();
                if !self.do_locally(cx, core, &wqe)? {
                    return Ok(Turn::Idle);
                }
                continue;
            }
            let Some(what) = self.next(core, &wqe) else {
                return Ok(Turn::Idle);
            };
            // A retransmitted packet is in flight already.
            if self.nxt >= self.max && self.nxt >= self.shared_end {
                cold_path();
                cx.outcome.out_of_peer_room = true;
                return Ok(Turn::Idle);
            }
            let mut sent = self.send_next(cx, port, core, &wqe, what);
            if sent.is_ok() && wqe.packets > 2 && matches!(what, What::Data(Why::InOrder)) {
                cx.observe.middle();
                // The last packet of the turn asks for an acknowledgement.
                let most = left.saturating_sub(1);
                sent = self
                    .send_middle(cx, port, core, &wqe, most as u64)
                    .map(|more| left -= more as usize);
            }
            match sent {
                Ok(()) => {}
                Err(EmitError::Full) => {
                    cold_path();
                    return Ok(Turn::PortFull);
                }
                // rule: 9.9.2-local-first
                // Requests before this one still complete first.
                Err(EmitError::Access(_)) => {
                    cold_path();
                    if self.cursor > 0 {
                        return Ok(Turn::Idle);
                    }
                    return Err(QpFailure::Send(WcStatus::LocalProtectionError));
                }
            }
        }
        Ok(Turn::More)
    }

    /// Sends `what` at `nxt`, and moves `nxt` past it.
    fn send_next(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        what: What,
    ) -> Result<(), EmitError> {
        let sent = self.send_at(cx, port, core, wqe, self.send_cursor(), what)?;
        match what {
            What::Data(why) if self.nxt == wqe.first => {
                self.credit.note_begin(self.nxt, why == Why::Probe);
            }
            What::Read { last, new: true } => self.fetches.push(self.nxt, last),
            What::Atomic { new: true } => self.fetches.push(self.nxt, self.nxt),
            _ => {}
        }
        self.move_past(cx, sent);
        Ok(())
    }

    /// Retransmits the packet at `at`, without the packets behind it.
    fn send_again(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        at: Seq,
    ) -> Result<(), EmitError> {
        let gap_end = self.recovery.gap_end();
        if let Some(end) = gap_end {
            // The peer has executed the requests in the gap that have no response of their own, so
            // they are skipped.
            let next = self.fetches.open_from(at).map_or(end, |open| open.min(end));
            if next > at {
                self.recovery.on_sent(next - at);
                return Ok(());
            }
        }
        let index = self.sq.partition_point(|wqe| wqe.end() <= at);
        let Some(wqe) = self.sq.get(index).copied() else {
            self.recovery.cancel();
            return Ok(());
        };
        let what = match (wqe.request.op, self.fetches.find(at)) {
            (SendOp::Read(_), Some(last)) => {
                let part = self.recovery.read_end(at);
                let part = part.map_or(last, |end| end.prev().min(last));
                if part < last {
                    self.fetches.split(at);
                }
                What::Read {
                    last: part,
                    new: false,
                }
            }
            (_, Some(_)) => What::Atomic { new: false },
            _ => What::Data(Why::Selective),
        };
        let sent = self.send_at(cx, port, core, &wqe, SendCursor { at, index }, what)?;
        self.note_sent(cx, at, sent);
        self.recovery.on_sent(sent.packets);
        Ok(())
    }

    /// The position of the packet at `nxt`. A run of [`super::recovery`] has its own position.
    fn send_cursor(&self) -> SendCursor {
        SendCursor {
            at: self.nxt,
            index: self.cursor,
        }
    }

    /// Sends from `cursor`, which `wqe` owns.
    fn send_at(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        cursor: SendCursor,
        what: What,
    ) -> Result<Sent, EmitError> {
        match what {
            What::Data(why) => self.send_data(cx, port, core, wqe, cursor, why),
            What::Read { last, .. } => self.send_read(cx, port, core, wqe, cursor, last),
            What::Atomic { .. } => self.send_atomic(cx, port, core, wqe, cursor),
        }
    }

    /// Decides what to send at `nxt`, which `wqe` owns; `None` if it has to wait.
    fn next(&self, core: &Core, wqe: &SendWqe) -> Option<What> {
        let begins = self.nxt == wqe.first;
        if self.retry.is_waiting_for_receiver() || self.recovery.is_learning() {
            cold_path();
            return None;
        }
        // SQD: a request that was begun continues, a new one is not begun (IBTA 1.7, 10.3.1.4).
        // rule: 10.3.1-sqd-finishes
        if core.state == QpState::Sqd && begins && self.nxt >= self.max {
            cold_path();
            return None;
        }
        // A fenced request waits for the responses of earlier READs and atomics. When it is
        // retransmitted, its own response and those of later READs and atomics may be missing; it
        // does not wait for those.
        // rule: 9.5-fence-again
        let earlier = || self.fetches.first_open().is_some_and(|at| at < self.nxt);
        // rule: 9.5-fence
        if begins && wqe.request.flags.contains(SendFlags::FENCE) {
            cold_path();
            if earlier() {
                return None;
            }
        }
        let window = self.send_window.packets();
        let in_flight = self.nxt - self.una;
        if in_flight >= window {
            return None;
        }
        match wqe.request.op {
            SendOp::Read(_) => {
                let (last, new) = match self.fetches.find(self.nxt) {
                    Some(last) => (last, false),
                    // rule: 9.7.3-max-rd-atomic
                    None if self.fetches.is_full() => return None,
                    None => {
                        let (read, mtu) = ((wqe.first, wqe.last()), core.config.mtu());
                        (self.fetches.chunk(self.nxt, read, window, mtu), true)
                    }
                };
                let fits = in_flight + (last.next() - self.nxt) <= window;
                (fits || in_flight == 0).then_some(What::Read { last, new })
            }
            SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::Flush(_)
            | SendOp::AtomicWrite(_) => match self.fetches.find(self.nxt) {
                // rule: 9.7.3-atomic-again
                Some(_) => Some(What::Atomic { new: false }),
                None if self.fetches.is_full() => None,
                None => Some(What::Atomic { new: true }),
            },
            _ if !self
                .credit
                .admits(wqe.request.op.consumes_receive(), wqe.receives) =>
            {
                // Without credit, one packet may be sent as a probe. Once it is acknowledged, the
                // message continues (IBTA 1.7, 9.7.7.2.5), like one that was begun with credit.
                // rule: 9.7.7.2.5-probe
                if begins && in_flight == 0 {
                    Some(What::Data(Why::Probe))
                } else if begins || self.credit.is_probing(wqe.first, self.una) {
                    None
                } else {
                    Some(What::Data(Why::InOrder))
                }
            }
            _ => Some(What::Data(Why::InOrder)),
        }
    }

    /// Moves `nxt` past the packets that were sent there.
    pub(super) fn move_past(&mut self, cx: &mut Cx<'_>, sent: Sent) {
        self.note_sent(cx, self.nxt, sent);
        self.since_ack_req = match sent.ack_req {
            AckReq::Yes => 0,
            AckReq::No | AckReq::Deferred => self.since_ack_req + sent.packets,
        };
        // rule: 9.7.3.1-psn-each
        self.nxt = self.nxt + sent.packets;
        if self
            .sq
            .get(self.cursor)
            .is_some_and(|wqe| wqe.end() <= self.nxt)
        {
            // rule: 10.8.2-order
            self.cursor += 1;
        }
    }

    /// Counts and times what was sent from `at` on.
    fn note_sent(&mut self, cx: &mut Cx<'_>, at: Seq, sent: Sent) {
        self.kept_packets.note(sent.kept, at);
        if at < self.max {
            cold_path();
            cx.nic.counters.count(Stat::Retransmitted);
            cx.observe.retransmitted();
        } else if sent.ack_req == AckReq::Yes {
            self.clock.trips.note(cx.now, at.next());
            if sent.timed {
                self.clock.time(cx.now, at.next());
            }
        }
        self.max = self.max.max(at + sent.packets);
        self.retry.on_sent(cx.now);
        match sent.ack_req {
            AckReq::Deferred => self.clock.on_ack_req_deferred(cx.now),
            AckReq::Yes | AckReq::No => self.clock.on_sent(cx.now, self.max),
        }
    }
}

//! The frame around each event of a QP: afterwards the NIC sets its timer and schedules its turn.

use super::Nic;
use super::table::NEVER;
use crate::ids::Handle;
use crate::qp::{Cx, Qp};
use crate::share::ShareId;
use crate::time::Instant;
use crate::traffic::Sums;
use core::hint::cold_path;
use roce_wire::Qpn;

impl Nic {
    /// Runs `f` on a QP, then sets its timer and schedules its turn to send.
    pub(super) fn with_qp<R>(
        &mut self,
        now: Instant,
        qpn: Qpn,
        f: impl FnOnce(&mut Qp, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_handle(now, self.qps.find(qpn)?, f)
    }

    pub(super) fn with_handle<R>(
        &mut self,
        now: Instant,
        handle: Handle,
        f: impl FnOnce(&mut Qp, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let result = self.with_qp_unscheduled(now, handle, f)?;
        if self.qps.at_mut(handle)?.qp.wants_to_send() {
            self.schedule(handle, false);
        }
        Some(result)
    }

    pub(super) fn with_qp_unscheduled<R>(
        &mut self,
        now: Instant,
        handle: Handle,
        f: impl FnOnce(&mut Qp, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let Self {
            qps,
            srqs,
            memory,
            counters,
            events,
            reorder,
            shares,
            congestion,
            notices,
            reports,
            ..
        } = self;
        let slot = qps.at_mut(handle)?;
        let qp = &mut slot.qp;
        let sums = Sums::of(counters);
        let mut cx = Cx {
            now,
            srqs,
            memory,
            counters,
            events,
            reorder,
            room: shares.room(&qp.stake),
            starved: false,
            congestion,
            shares,
            owes_notice: false,
            slowed_to: None,
            alone: false,
            report: None,
        };
        let result = f(qp, &mut cx);
        let (starved, slowed_to) = (cx.starved, cx.slowed_to);
        if let Some(report) = cx.report {
            cold_path();
            reports.note(handle, report);
        }
        qp.traffic.note_sent(&sums, cx.counters);
        if cx.owes_notice {
            cold_path();
            notices.push_back(handle);
        }
        if let Some(rate) = slowed_to {
            cold_path();
            shares.note_rate(now, &qp.stake, rate);
        }
        let in_flight = qp.in_flight();
        shares.settle(&mut qp.stake, in_flight);
        if starved {
            cold_path();
            shares.wait(&mut qp.stake, handle);
        }
        let share = qp.stake.share();
        slot.deadline = qp.deadline().unwrap_or(NEVER);
        slot.pauses = qp.pause().is_some();
        if !(slot.scheduled && slot.has_paused(now)) {
            self.set_timer(handle);
        }
        if let Some(share) = share {
            self.call(share);
        }
        Some(result)
    }

    /// Makes sure that the QP's timer expires at its deadline or before.
    pub(super) fn set_timer(&mut self, handle: Handle) {
        let Some(slot) = self.qps.at_mut(handle) else {
            return;
        };
        // A timer that is due earlier stays: when it expires, it is moved if necessary.
        if slot.deadline < self.timers.at(handle.slot()) {
            self.timers.set(handle.slot(), slot.deadline);
        }
    }

    /// Stops the timer of a QP whose pause is over, and that gets its turn when the port has room
    /// again. A timer can't help it, and would stay due until then.
    pub(super) fn forget_pause(&mut self, now: Instant, handle: Handle) {
        let Some(slot) = self.qps.at_mut(handle) else {
            return;
        };
        if slot.has_paused(now) {
            self.timers.set(handle.slot(), NEVER);
        }
    }

    /// Gives a turn to a QP that waits for room in a share, if there is room.
    #[inline]
    pub(super) fn call(&mut self, share: ShareId) {
        if self.shares.has_waiting(share) {
            cold_path();
            self.call_waiting(share);
        }
    }

    #[inline(never)]
    fn call_waiting(&mut self, share: ShareId) {
        let Some(handle) = self.shares.call(share) else {
            return;
        };
        if let Some(second) = self.shares.second(share) {
            self.qps.bring_near(second);
        }
        if let Some(slot) = self.qps.at_mut(handle) {
            slot.qp.stake.is_called();
            self.shares.keep(&mut slot.qp.stake);
        }
        self.schedule(handle, false);
    }

    pub(super) fn schedule(&mut self, handle: Handle, in_front: bool) {
        let Some(slot) = self.qps.at_mut(handle) else {
            return;
        };
        if slot.scheduled {
            return;
        }
        slot.scheduled = true;
        if in_front {
            self.ready.push_front(handle);
        } else {
            self.ready.push_back(handle);
        }
    }
}

//! Runs code on a QP, and afterwards sets the QP's timer and schedules its turn to send.

use super::Nic;
use super::table::NEVER;
use crate::ids::Handle;
use crate::observe::Observer;
use crate::peer_window::PeerWindowId;
use crate::qp::{Cx, Outcome, Qp};
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
            shared,
            pending_cnps,
            reports,
            observed,
            ..
        } = self;
        let slot = qps.at_mut(handle)?;
        let qp = &mut slot.qp;
        let sums = Sums::of(&shared.counters);
        let mut cx = Cx {
            now,
            handle,
            peer_room: shared.peer_windows.room(&qp.window_share),
            nic: shared,
            nothing_follows: false,
            outcome: Outcome::default(),
            observe: Observer::new(now, &mut slot.trace, observed),
        };
        let result = f(qp, &mut cx);
        let (shared, outcome) = (cx.nic, cx.outcome);
        if let Some(report) = outcome.report {
            cold_path();
            reports.note(handle, report);
        }
        qp.traffic.note_sent(&sums, &shared.counters);
        if outcome.cnp_due {
            cold_path();
            pending_cnps.push_back(handle);
        }
        let peer_windows = &mut shared.peer_windows;
        if let Some(rate) = outcome.slowed_to {
            cold_path();
            peer_windows.note_rate(now, &qp.window_share, rate);
        }
        let in_flight = qp.in_flight();
        peer_windows.set_in_flight(&mut qp.window_share, in_flight);
        if outcome.out_of_peer_room {
            cold_path();
            peer_windows.wait(&mut qp.window_share, handle);
        }
        let window = qp.window_share.window();
        slot.deadline = qp.deadline().unwrap_or(NEVER);
        slot.is_pause = qp.pause().is_some();
        if !(slot.scheduled && slot.pause_is_over(now)) {
            self.set_timer(handle);
        }
        if let Some(window) = window {
            self.offer_peer_window_room(window);
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

    /// Stops the timer of a QP whose pause is over while the port is full. The timer would be due
    /// all the time, and the QP can't send before the port has room.
    pub(super) fn stop_pause_timer(&mut self, now: Instant, handle: Handle) {
        let Some(slot) = self.qps.at_mut(handle) else {
            return;
        };
        if slot.pause_is_over(now) {
            self.timers.set(handle.slot(), NEVER);
        }
    }

    /// Schedules the QP that has waited longest for room in the peer window, if there is enough
    /// room for a turn.
    #[inline]
    pub(super) fn offer_peer_window_room(&mut self, window: PeerWindowId) {
        if self.shared.peer_windows.has_waiting(window) {
            cold_path();
            self.give_waiting_a_turn(window);
        }
    }

    #[inline(never)]
    fn give_waiting_a_turn(&mut self, window: PeerWindowId) {
        let Some(handle) = self.shared.peer_windows.next_waiting(window) else {
            return;
        };
        if let Some(second) = self.shared.peer_windows.second(window) {
            self.qps.prefetch(second);
        }
        if let Some(slot) = self.qps.at_mut(handle) {
            slot.qp.window_share.on_turn();
            self.shared.peer_windows.reserve(&mut slot.qp.window_share);
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

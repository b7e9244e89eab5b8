//! Completion queues: small ones, shared ones, and ones that applications poll late, or when the
//! event comes that they have requested.

use super::completions::is_receive;
use super::plan::CqPlan;
use super::state::{CqState, Run, Token};
use crate::fabric::HostId;
use crate::oracle::{CqUser, Verdict, Violation, violated};
use roce_stack::{Completion, CompletionQueue, CqId, Duration, Notify, QpKind, QpState, WcStatus};
use std::sync::Arc;

impl Run<'_> {
    /// Makes a CQ with the planned number of entries, or else `default_entries`.
    pub(super) fn make_cq(
        &mut self,
        host: HostId,
        plan: CqPlan,
        default_entries: usize,
    ) -> Arc<CompletionQueue> {
        let entries = plan.entries.unwrap_or(default_entries);
        let cq = Arc::new(CompletionQueue::new(CqId(self.cqs.len() as u64), entries));
        self.cqs.push(CqState {
            host,
            cq: Arc::clone(&cq),
            entries,
            poll_delay: Duration::from_nanos(plan.poll_delay_ns),
            notify: plan.notify,
            armed: false,
            event_due: false,
            event_possible: false,
            is_call_scheduled: false,
            failed: false,
            error_reported: false,
        });
        self.arm(cq.id());
        cq
    }

    /// The CQ that some ends of a host share, if there is one. Makes a new one if the last has
    /// overrun.
    pub(super) fn host_cq(&mut self, host: HostId) -> Option<Arc<CompletionQueue>> {
        let plan = self.plan.cqs.get(host.0).copied().flatten()?;
        let known = self.host_cqs[host.0].clone();
        let usable = known.filter(|cq| !self.cq_state(cq.id()).failed);
        let cq = usable.unwrap_or_else(|| self.make_cq(host, plan, 0));
        self.host_cqs[host.0] = Some(Arc::clone(&cq));
        Some(cq)
    }

    pub(super) fn cq_state(&mut self, id: CqId) -> &mut CqState {
        &mut self.cqs[id.0 as usize]
    }

    /// Whether the application of an end waits before it polls the end's completions. If so,
    /// schedules the poll.
    pub(super) fn postpones_poll(&mut self, pair: usize, side: usize) -> bool {
        let end = self.end(pair, side);
        if end.send_cq.is_empty() && end.recv_cq.is_empty() {
            return false;
        }
        let ids = [end.send_cq.id(), end.recv_cq.id()];
        if self.sleeps(ids) {
            return true;
        }
        let [id, _] = ids;
        let later = self.fabric.now() + self.cq_state(id).poll_delay;
        let state = self.cq_state(id);
        if state.poll_delay.is_zero() {
            return false;
        }
        if !core::mem::replace(&mut state.is_call_scheduled, true) {
            self.call_at(later, Token::PollCq(id.0 as usize));
        }
        true
    }

    /// Takes the completions of a CQ, as scheduled.
    pub(super) fn poll_postponed(&mut self, number: usize) -> Verdict {
        let state = &mut self.cqs[number];
        state.is_call_scheduled = false;
        let (host, id) = (state.host, state.cq.id());
        if self.paused[host.0] {
            return Ok(());
        }
        for (pair, side) in self.ends_at(id) {
            self.poll(pair, side)?;
        }
        // The queues may have space for receives and sends now.
        self.post_requests_of_host(host)?;
        self.drive(host);
        Ok(())
    }

    /// The existing ends that use the CQ.
    pub(super) fn ends_at(&self, id: CqId) -> Vec<(usize, usize)> {
        let here = |&(pair, side): &(usize, usize)| {
            let end = self.pairs[pair].as_ref().map(|state| &state.ends[side]);
            end.is_some_and(|end| end.alive && (end.send_cq.id() == id || end.recv_cq.id() == id))
        };
        self.all_ends().filter(here).collect()
    }

    /// Takes an end's completions, and those of others in the same CQ. Returns whether there were
    /// any.
    pub(super) fn poll(&mut self, pair: usize, side: usize) -> Result<bool, Violation> {
        let end = self.end(pair, side);
        if end.send_cq.is_empty() && end.recv_cq.is_empty() {
            return Ok(false);
        }
        if self.plan.pairs[pair].connect.kind.is_xrc() && side == 1 {
            return self.poll_srqs(end.host);
        }
        let cqs = [Arc::clone(&end.send_cq), Arc::clone(&end.recv_cq)];
        let mut completions = core::mem::take(&mut self.completion_buffer);
        for cq in &cqs {
            self.drain_cq(cq, &mut completions)?;
        }
        // A failure in one CQ causes flushed requests in the other.
        for done in &completions {
            let (pair, side) = self.owner_of((pair, side), done)?;
            if self.breaks_qp(pair, done) {
                self.oracle.mark_may_be_broken(pair, side);
            }
        }
        for done in completions.drain(..) {
            let (pair, side) = self.owner_of((pair, side), &done)?;
            self.count_completion(&done);
            self.oracle.completed(pair, side, &done)?;
            if let (Some(pool), true) = (self.end(pair, side).pool, is_receive(done.opcode)) {
                self.release_slot(pool, done.wr_id);
            }
        }
        self.completion_buffer = completions;
        for cq in &cqs {
            self.destroy_users_of_overrun(cq.id())?;
        }
        Ok(true)
    }

    /// Takes the contents of a CQ. If it has overrun, reports that to the oracle first.
    pub(super) fn drain_cq(
        &mut self,
        cq: &CompletionQueue,
        completions: &mut Vec<Completion>,
    ) -> Verdict {
        loop {
            match cq.poll() {
                Ok(Some(done)) => {
                    self.note_polled(cq.id(), &done);
                    completions.push(done);
                }
                Ok(None) => break,
                Err(_) => {
                    self.overran(cq.id())?;
                    break;
                }
            }
        }
        let state = self.cq_state(cq.id());
        state.entries = state.cq.capacity();
        Ok(())
    }

    /// The end that a completion belongs to. It must use this end's CQ.
    fn owner_of(
        &self,
        (pair, side): (usize, usize),
        done: &Completion,
    ) -> Result<(usize, usize), Violation> {
        let end = self.end(pair, side);
        if done.qpn == end.qpn {
            return Ok((pair, side));
        }
        let cq = end.send_cq.id();
        let other = self.end_of(end.host, done.qpn);
        let other = other.filter(|(pair, side)| self.end(*pair, *side).send_cq.id() == cq);
        other.ok_or_else(|| Violation(format!("a completion of another QP: {done:?}")))
    }

    /// Whether the QP is in the error state after such a completion.
    fn breaks_qp(&self, pair: usize, done: &Completion) -> bool {
        let kind = self.plan.pairs[pair].connect.kind;
        let fails = !matches!(
            done.status,
            WcStatus::Success | WcStatus::WorkRequestFlushed
        );
        // A failed send leaves receiving intact.
        let survives = matches!(kind, QpKind::Uc | QpKind::Ud) && !is_receive(done.opcode);
        fails && !survives
    }

    /// Handles a CQ that has overrun. Its contents were just polled and not yet reported to the
    /// oracle.
    fn overran(&mut self, id: CqId) -> Verdict {
        let state = self.cq_state(id);
        let entries = state.entries;
        if core::mem::replace(&mut state.failed, true) {
            return Ok(());
        }
        self.outcome.counts.overruns += 1;
        let ends = self.ends_at(id);
        let mut failed = false;
        let mut users = Vec::new();
        for (pair, side) in ends {
            let end = self.end(pair, side);
            users.push(CqUser {
                pair,
                side,
                sends: end.send_cq.id() == id,
                receives: end.recv_cq.id() == id,
            });
            let state = self.qp_state(pair, side);
            failed |= matches!(state, Some(QpState::Err | QpState::Sqe));
        }
        if !failed {
            return violated(format!(
                "CQ {id:?} overran, but no QP has failed: {users:?}"
            ));
        }
        self.oracle.cq_overran(entries, &users)
    }

    /// Destroys the QPs of a CQ that has overrun, since their state is unknown.
    pub(super) fn destroy_users_of_overrun(&mut self, id: CqId) -> Verdict {
        if !self.cq_state(id).failed {
            return Ok(());
        }
        for (pair, side) in self.ends_at(id) {
            self.destroy(pair, side)?;
        }
        Ok(())
    }

    /// The NIC reported that a CQ has overrun.
    pub(super) fn cq_error(&mut self, host: HostId, id: CqId) -> Verdict {
        for (pair, side) in self.ends_at(id) {
            if self.end(pair, side).alive {
                self.poll(pair, side)?;
            }
        }
        let state = self.cq_state(id);
        let twice = core::mem::replace(&mut state.error_reported, true);
        if twice || !state.failed || state.host != host {
            return violated(format!(
                "host {}: error of {id:?}, twice or without an overrun",
                host.0
            ));
        }
        Ok(())
    }

    /// The NIC reported that a QP has failed and can't deliver a completion, because one of its CQs
    /// has overrun.
    pub(super) fn check_fatal(&self, pair: usize, side: usize) -> Verdict {
        // QPs are destroyed when their CQ turns out to have overrun.
        match self.end(pair, side).alive {
            true => violated(format!("pair {pair} side {side}: none of its CQs overran")),
            false => Ok(()),
        }
    }

    /// A host restarts: no more events of its CQs arrive.
    pub(super) fn forget_cqs(&mut self, host: HostId) {
        for state in self.cqs.iter_mut().filter(|state| state.host == host) {
            state.error_reported = true;
            state.armed = false;
        }
    }

    /// Checks that every overrun CQ was reported.
    pub(super) fn check_cq_errors_reported(&self) -> Verdict {
        match self
            .cqs
            .iter()
            .find(|state| state.failed && !state.error_reported)
        {
            Some(state) => violated(format!(
                "{:?} overran, but the NIC reported no error",
                state.cq.id()
            )),
            None => Ok(()),
        }
    }

    /// Resizes the CQs of an end. A CQ that holds more completions refuses.
    pub(super) fn resize_cqs(&mut self, pair: usize, side: usize, entries: usize) -> Verdict {
        let end = self.end(pair, side);
        for cq in [Arc::clone(&end.send_cq), Arc::clone(&end.recv_cq)] {
            let before = cq.capacity();
            match cq.resize(entries) {
                Ok(()) if cq.capacity() == entries => {
                    let state = self.cq_state(cq.id());
                    state.entries = state.entries.min(entries);
                }
                Err(error)
                    if (entries + 1..=before).contains(&error.held) && cq.capacity() == before => {}
                other => {
                    return violated(format!(
                        "pair {pair} side {side}: a CQ of {before} entries to {entries}: {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    /// Requests the next event of a CQ, if its application wants any.
    pub(super) fn arm(&mut self, id: CqId) {
        let state = self.cq_state(id);
        let Some(notify) = state.notify else {
            return;
        };
        state.cq.request_notify(notify);
        if notify == Notify::Next {
            // A request for the next completion outweighs this one.
            state.cq.request_notify(Notify::Solicited);
        }
        state.armed = true;
        (state.event_due, state.event_possible) = (false, false);
    }

    /// Whether the application that uses these two CQs sleeps until an event comes.
    pub(super) fn sleeps(&self, ids: [CqId; 2]) -> bool {
        ids.iter().all(|id| {
            let state = &self.cqs[id.0 as usize];
            state.notify == Some(Notify::Next) && state.armed && !state.failed
        })
    }

    /// Notes a completion that was polled: whether it raises an event that was requested.
    pub(super) fn note_polled(&mut self, id: CqId, done: &Completion) {
        let state = self.cq_state(id);
        let fails = done.status != WcStatus::Success;
        let raises = match state.notify {
            None | Some(Notify::Never) => return,
            Some(Notify::Next) => true,
            Some(Notify::Solicited) => fails,
        };
        state.event_due |= raises;
        // It is not known here whether the sender of a message asked for an event.
        state.event_possible |= raises || is_receive(done.opcode);
    }

    /// The NIC reported that a completion came that an application waits for.
    pub(super) fn notified(&mut self, host: HostId, id: CqId) -> Verdict {
        let state = self.cq_state(id);
        let was_armed = core::mem::replace(&mut state.armed, false);
        let has_cause = state.event_possible || !state.cq.is_empty();
        if !was_armed || !has_cause || state.host != host {
            return violated(format!(
                "host {}: an event of {id:?}, twice or without a completion",
                host.0
            ));
        }
        self.outcome.counts.cq_events += 1;
        // Completions that are already there raise no event, so they are polled after this.
        self.arm(id);
        for (pair, side) in self.ends_at(id) {
            self.poll(pair, side)?;
        }
        let state = self.cq_state(id);
        (state.event_due, state.event_possible) = (false, false);
        self.post_requests_of_host(host)?;
        self.drive(host);
        Ok(())
    }

    /// Checks at the end of a run that no application still sleeps although a completion came.
    pub(super) fn check_events_came(&self) -> Verdict {
        let is_missed = |state: &&CqState| {
            let waits = state.notify == Some(Notify::Next) && !state.cq.is_empty();
            state.armed && !state.failed && (waits || state.event_due)
        };
        match self.cqs.iter().find(is_missed) {
            Some(state) => violated(format!(
                "no event of {:?}, although completions came",
                Arc::clone(&state.cq).id()
            )),
            None => Ok(()),
        }
    }
}

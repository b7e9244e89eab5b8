//! The events of CQs: an application requests one, sleeps, and polls when it comes.

use super::completions::is_receive;
use super::state::{CqState, Run};
use crate::fabric::HostId;
use crate::oracle::{Verdict, violated};
use roce_stack::{Completion, CqId, Notify, WcStatus};
use std::sync::Arc;

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

//! Completions on their way to a CQ.

use super::{Cx, QpFailure};
use crate::cause::Cause;
use crate::cq::{CompletionQueue, Pushed};
use crate::event::Event;
use crate::observe::{Delivery, Intercepted};
use crate::queue::EntryGuard;
use crate::wr::{Completion, WcStatus};
use core::hint::cold_path;
use std::sync::Arc;

impl Cx<'_> {
    /// Delivers a completion.
    pub(super) fn complete(
        &mut self,
        cq: &Arc<CompletionQueue>,
        completion: Completion,
        solicited: bool,
        entry: Option<EntryGuard>,
    ) -> Result<(), QpFailure> {
        if self.observe.intercepts() {
            cold_path();
            return self.complete_intercepted(Delivery {
                cq: Arc::clone(cq),
                completion,
                solicited,
                entry,
            });
        }
        self.deliver(cq, completion, solicited, entry)
    }

    /// Delivers a completion that is intercepted, if it is to be delivered.
    #[cold]
    fn complete_intercepted(&mut self, delivery: Delivery) -> Result<(), QpFailure> {
        let failure = match delivery.is_receive() {
            true => QpFailure::Receive,
            false => QpFailure::Send(WcStatus::WorkRequestFlushed),
        };
        match self.observe.intercept(delivery) {
            Intercepted::Deliver(delivery) => self.deliver_now(delivery),
            Intercepted::Keep => Ok(()),
            Intercepted::Fail(.., delivery) => {
                delivery.map_or(Ok(()), |delivery| self.deliver_now(delivery))?;
                Err(failure)
            }
            Intercepted::Overrun(Delivery { cq, .. }) => {
                if cq.overrun() {
                    self.nic.events.push_back(Event::CqError(cq.id()));
                }
                Err(QpFailure::CqOverrun)
            }
        }
    }

    /// Delivers a completion that was kept.
    pub(crate) fn deliver_now(&mut self, delivery: Delivery) -> Result<(), QpFailure> {
        let Delivery {
            cq,
            completion,
            solicited,
            entry,
        } = delivery;
        self.deliver(&cq, completion, solicited, entry)
    }

    #[inline]
    fn deliver(
        &mut self,
        cq: &CompletionQueue,
        completion: Completion,
        solicited: bool,
        entry: Option<EntryGuard>,
    ) -> Result<(), QpFailure> {
        match cq.push(completion, self.now, solicited, entry) {
            Pushed::Quiet => Ok(()),
            Pushed::Notify => {
                self.nic.events.push_back(Event::CqNotify(cq.id()));
                Ok(())
            }
            Pushed::Overrun { first } => {
                if first {
                    // rule: 11.6.3-cq-error
                    self.nic.events.push_back(Event::CqError(cq.id()));
                }
                self.observe.failed(Cause::CqOverrun {
                    cq: cq.id(),
                    capacity: cq.capacity(),
                });
                Err(QpFailure::CqOverrun)
            }
        }
    }
}

//! Completions on their way to a CQ.

use super::{Core, Cx, QpFailure};
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
        core: &Core,
        cq: &Arc<CompletionQueue>,
        completion: Completion,
        solicited: bool,
        entry: Option<EntryGuard>,
    ) -> Result<(), QpFailure> {
        if self.observe.intercepts() {
            cold_path();
            let cq = Arc::clone(cq);
            let delivery = Delivery {
                cq,
                completion,
                solicited,
                entry,
            };
            return self.complete_intercepted(core, delivery);
        }
        self.deliver(core, cq, completion, solicited, entry)
    }

    /// Delivers a completion that is intercepted, if it is to be delivered.
    #[cold]
    fn complete_intercepted(&mut self, core: &Core, delivery: Delivery) -> Result<(), QpFailure> {
        let failure = match delivery.is_receive() {
            true => QpFailure::Receive,
            false => QpFailure::Send(WcStatus::WorkRequestFlushed),
        };
        match self.observe.intercept(delivery) {
            Intercepted::Deliver(delivery) => self.deliver_now(core, delivery),
            Intercepted::Keep => Ok(()),
            Intercepted::Fail(.., delivery) => {
                delivery.map_or(Ok(()), |delivery| self.deliver_now(core, delivery))?;
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
    pub(crate) fn deliver_now(&mut self, core: &Core, delivery: Delivery) -> Result<(), QpFailure> {
        let Delivery {
            cq,
            completion,
            solicited,
            entry,
        } = delivery;
        self.deliver(core, &cq, completion, solicited, entry)
    }

    #[inline]
    fn deliver(
        &mut self,
        core: &Core,
        cq: &CompletionQueue,
        completion: Completion,
        solicited: bool,
        entry: Option<EntryGuard>,
    ) -> Result<(), QpFailure> {
        // First, so that a program that has polled the completion finds it counted.
        let (opcode, status) = (completion.opcode, completion.status);
        core.counters.count(opcode, status, completion.byte_len);
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

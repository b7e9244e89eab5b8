//! Completions on their way to a CQ: delivered, or struck by an injected fault (see
//! [`InjectedFaults`](crate::injected::InjectedFaults)).

use super::{Cx, QpFailure};
use crate::cause::{Cause, InjectedFailure};
use crate::cq::{CompletionQueue, Pushed};
use crate::event::Event;
use crate::injected::{CompletionFate, Delivery};
use crate::queue::EntryGuard;
use crate::wr::{Completion, WcOpcode, WcStatus};
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
        if self.injected.is_some() {
            cold_path();
            return self.complete_with_fault(Delivery {
                cq: Arc::clone(cq),
                completion,
                solicited,
                entry,
            });
        }
        self.deliver(cq, completion, solicited, entry)
    }

    /// Delivers a completion, or injects the fault that strikes it.
    #[cold]
    fn complete_with_fault(&mut self, mut delivery: Delivery) -> Result<(), QpFailure> {
        let Some(injected) = self.injected.as_deref_mut() else {
            return self.deliver_now(delivery);
        };
        let (cq, completion) = (delivery.cq.id(), delivery.completion);
        let failure = match injected.judge(&completion) {
            CompletionFate::Deliver => None,
            CompletionFate::Delay(time) => {
                injected.hold(self.now + time, delivery);
                return Ok(());
            }
            CompletionFate::Lose => {
                injected.lose(delivery);
                return Ok(());
            }
            CompletionFate::Fail(status) => {
                let wr_id = completion.wr_id;
                delivery.completion.status = status;
                Some(InjectedFailure::Status { status, wr_id })
            }
            CompletionFate::Overrun => {
                if delivery.cq.overrun() {
                    self.events.push_back(Event::CqError(cq));
                }
                self.blame
                    .name(Cause::Injected(InjectedFailure::Overrun(cq)));
                return Err(QpFailure::CqOverrun);
            }
        };
        match injected.last_of_queue(&completion) {
            Some(at) => injected.hold(at, delivery),
            None => self.deliver_now(delivery)?,
        }
        let Some(failure) = failure else {
            return Ok(());
        };
        self.blame.name(Cause::Injected(failure));
        Err(match completion.opcode {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => QpFailure::Receive,
            _ => QpFailure::Send(WcStatus::WorkRequestFlushed),
        })
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
                self.events.push_back(Event::CqNotify(cq.id()));
                Ok(())
            }
            Pushed::Overrun { first } => {
                if first {
                    // rule: 11.6.3-cq-error
                    self.events.push_back(Event::CqError(cq.id()));
                }
                self.blame.name(Cause::CqOverrun {
                    cq: cq.id(),
                    capacity: cq.capacity(),
                });
                Err(QpFailure::CqOverrun)
            }
        }
    }
}

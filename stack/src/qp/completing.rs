//! Completions on their way to a CQ: delivered, or treated as was ordered (see
//! [`Ordered`](crate::ordered::Ordered)).

use super::{Cx, QpFailure};
use crate::cause::{Cause, OrderedFailure};
use crate::cq::{CompletionQueue, Pushed};
use crate::event::Event;
use crate::ordered::{CompletionFate, Delivery};
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
        if self.ordered.is_some() {
            cold_path();
            return self.complete_as_ordered(Delivery {
                cq: Arc::clone(cq),
                completion,
                solicited,
                entry,
            });
        }
        self.deliver(cq, completion, solicited, entry)
    }

    /// Delivers a completion, or does with it what was ordered.
    #[cold]
    fn complete_as_ordered(&mut self, mut delivery: Delivery) -> Result<(), QpFailure> {
        let Some(ordered) = self.ordered.as_deref_mut() else {
            return self.deliver_now(delivery);
        };
        let (cq, completion) = (delivery.cq.id(), delivery.completion);
        let failure = match ordered.judge(&completion) {
            CompletionFate::Deliver => None,
            CompletionFate::Delay(time) => {
                ordered.hold(self.now + time, delivery);
                return Ok(());
            }
            CompletionFate::Lose => {
                ordered.lose(delivery);
                return Ok(());
            }
            CompletionFate::Fail(status) => {
                let wr_id = completion.wr_id;
                delivery.completion.status = status;
                Some(OrderedFailure::Status { status, wr_id })
            }
            CompletionFate::Overrun => {
                if delivery.cq.overrun() {
                    self.events.push_back(Event::CqError(cq));
                }
                self.blame.name(Cause::Ordered(OrderedFailure::Overrun(cq)));
                return Err(QpFailure::CqOverrun);
            }
        };
        match ordered.last_of_queue(&completion) {
            Some(at) => ordered.hold(at, delivery),
            None => self.deliver_now(delivery)?,
        }
        let Some(failure) = failure else {
            return Ok(());
        };
        self.blame.name(Cause::Ordered(failure));
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

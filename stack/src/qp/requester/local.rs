//! Window binds and local invalidations: requests that need no packet (IBTA 1.7, 10.8.3.3).
//!
//! A local request owns no PSN. It is executed once, when all earlier requests have been sent, and
//! completes when they have completed. A retransmission skips it.

use super::{Requester, SendWqe};
use crate::kind::QpState;
use crate::qp::{Core, Cx, QpFailure, local};
use crate::wr::{SendFlags, SendOp};

impl Requester {
    /// Executes the local request at the cursor, unless it was executed before, and moves the
    /// cursor on. Returns false if the request has to wait.
    pub(super) fn do_locally(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        wqe: &SendWqe,
    ) -> Result<bool, QpFailure> {
        // rule: 10.6.7-window-once
        if !wqe.done {
            if self.must_wait(core, wqe) {
                return Ok(false);
            }
            if let Err(failure) = local::perform(cx, core, &wqe.request.op) {
                // Requests before this one still complete first.
                return match self.cursor {
                    0 => Err(failure),
                    _ => Ok(false),
                };
            }
            if let Some(wqe) = self.sq.get_mut(self.cursor) {
                wqe.done = true;
            }
        }
        self.cursor += 1;
        self.complete_finished(cx, core)?;
        Ok(true)
    }

    // rule: 10.6.7-window-order
    fn must_wait(&self, core: &Core, wqe: &SendWqe) -> bool {
        // An invalidation waits for all requests that may still use the key (10.6.5.1).
        let waits_for_all = matches!(wqe.request.op, SendOp::LocalInv(_)) && self.cursor > 0;
        let earlier = self.fetches.first_open().is_some();
        let fenced = wqe.request.flags.contains(SendFlags::FENCE) && earlier;
        waits_for_all || fenced || core.state == QpState::Sqd
    }
}

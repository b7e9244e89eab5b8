//! Attaches completion counters to QPs.

use super::Nic;
use crate::completion_counter::{AttachCounterError, CompletionCounter, CountedOps};
use roce_wire::Qpn;
use std::sync::Arc;

impl Nic {
    /// Lets `counter` count these operations of a QP in state RESET or INIT, until the QP is
    /// destroyed. It may count those of other QPs, too. Completions go to the CQs all the same.
    ///
    /// # Errors
    /// See [`AttachCounterError`]; nothing was attached then.
    pub fn attach_completion_counter(
        &mut self,
        qpn: Qpn,
        counter: &Arc<CompletionCounter>,
        ops: CountedOps,
    ) -> Result<(), AttachCounterError> {
        let unknown = AttachCounterError::UnknownQp(qpn);
        let handle = self.qps.find(qpn).ok_or(unknown)?;
        let slot = self.qps.at_mut(handle).ok_or(unknown)?;
        slot.qp.attach_counter(counter, ops)
    }
}

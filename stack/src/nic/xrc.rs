//! XRC (IBTA 1.7, annex A14): domains, their SRQs, and target QPs.

use super::{CreateQpError, Nic};
use crate::cq::CompletionQueue;
use crate::ids::{CqId, Srqn, XrcdId};
use crate::kind::QpKind;
use crate::memory::PdId;
use crate::qp::{QpInit, Receives};
use crate::queue::QueueLimits;
use crate::srq::{SrqError, SrqInit};
use roce_wire::Qpn;
use std::sync::Arc;

impl Nic {
    /// Creates an XRC domain.
    pub fn create_xrcd(&mut self) -> XrcdId {
        self.shared.srqs.create_domain()
    }

    /// Removes an XRC domain, which no SRQ and no target QP may use any more.
    ///
    /// # Errors
    /// See [`SrqError`].
    pub fn destroy_xrcd(&mut self, domain: XrcdId) -> Result<(), SrqError> {
        self.shared.srqs.destroy_domain(domain)
    }

    /// Creates an SRQ for the target QPs of an XRC domain. Its receives complete to `cq`. Requests
    /// that name it may access memory of its protection domain.
    ///
    /// # Errors
    /// See [`SrqError`].
    pub fn create_xrc_srq(
        &mut self,
        init: &SrqInit,
        domain: XrcdId,
        cq: Arc<CompletionQueue>,
    ) -> Result<Srqn, SrqError> {
        let srqn = self.free_srqn()?;
        self.shared.srqs.create_xrc(srqn, init, domain, cq)?;
        Ok(srqn)
    }

    /// Creates a QP of kind [`QpKind::XrcTarget`] in state RESET. It has neither queues nor a
    /// protection domain: each request names an SRQ of the domain.
    ///
    /// # Errors
    /// If there is no such domain, or all QPNs are in use.
    pub fn create_xrc_target(&mut self, domain: XrcdId) -> Result<Qpn, CreateQpError> {
        let qpn = self.free_qpn()?;
        self.shared.srqs.join(domain)?;
        let nothing = QueueLimits {
            depth: 0,
            max_sge: 0,
        };
        // Never used: the QP sends nothing, and its receives complete to the CQs of SRQs.
        let cq = Arc::new(CompletionQueue::new(CqId(0), 1));
        let init = QpInit {
            kind: QpKind::XrcTarget,
            pd: PdId(0),
            send_cq: Arc::clone(&cq),
            recv_cq: cq,
            send: nothing,
            recv: nothing,
            max_inline: 0,
            signal_all: false,
        };
        Ok(self.insert_qp(qpn, init, Receives::xrc(domain)))
    }
}

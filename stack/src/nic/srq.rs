//! Shared receive queues (SRQs): the calls of a NIC.

use super::{CreateQpError, Nic};
use crate::ids::Srqn;
use crate::qp::{QpInit, Receives};
use crate::srq::{MAX_SRQS, SrqAttributes, SrqError, SrqInit, SrqStatus};
use crate::wr::{PostError, RecvRequest};
use rand_core::Rng;
use roce_wire::Qpn;

impl Nic {
    /// Creates an SRQ, with an unpredictable number.
    ///
    /// # Errors
    /// See [`SrqError`].
    pub fn create_srq(&mut self, init: &SrqInit) -> Result<Srqn, SrqError> {
        let srqn = self.free_srqn()?;
        self.shared.srqs.create(srqn, init)?;
        Ok(srqn)
    }

    /// Draws an SRQ number that is not in use, and was not in use a short while ago.
    pub(super) fn free_srqn(&mut self) -> Result<Srqn, SrqError> {
        if self.shared.srqs.len() >= MAX_SRQS {
            return Err(SrqError::TooMany { max: MAX_SRQS });
        }
        loop {
            let bits = self.rng.next_u32() & 0xff_ffff;
            if bits != 0 && !self.shared.srqs.is_taken(bits) {
                return Ok(Srqn(bits));
            }
        }
    }

    /// Resizes an SRQ, or asks for an event when it runs low (IBTA 1.7, 10.2.9).
    ///
    /// # Errors
    /// See [`SrqError`]; nothing was changed then.
    pub fn modify_srq(&mut self, srqn: Srqn, attributes: &SrqAttributes) -> Result<(), SrqError> {
        self.shared
            .srqs
            .modify(srqn, attributes, &mut self.shared.events)
    }

    /// The attributes and the state of an SRQ; `None` if there is no such SRQ.
    pub fn query_srq(&self, srqn: Srqn) -> Option<SrqStatus> {
        self.shared.srqs.query(srqn)
    }

    /// Removes an SRQ that no QP uses. The receives that are still posted never
    /// complete.
    ///
    /// # Errors
    /// See [`SrqError`].
    pub fn destroy_srq(&mut self, srqn: Srqn) -> Result<(), SrqError> {
        self.shared.srqs.destroy(srqn)
    }

    /// Posts a receive request for the first QP of the SRQ that needs one.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was posted then.
    pub fn post_srq_recv(&mut self, srqn: Srqn, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        self.shared.srqs.post(srqn, wr)
    }

    /// Creates a QP in state RESET that takes its receives from an SRQ, and ignores `init.recv`.
    ///
    /// # Errors
    /// If there is no such SRQ, the SRQ or the QP is of XRC, or all QPNs are in use.
    // rule: 10.2.9-srq
    pub fn create_qp_with_srq(&mut self, init: QpInit, srqn: Srqn) -> Result<Qpn, CreateQpError> {
        let qpn = self.free_qpn()?;
        let (pd, max_sge) = self.shared.srqs.attach(srqn, init.kind)?;
        Ok(self.insert_qp(qpn, init, Receives::shared(srqn, pd, max_sge)))
    }
}

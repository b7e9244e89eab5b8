//! Creates QPs, as long as QPNs are left.

use super::Nic;
use crate::kind::QpKind;
use crate::qp::{Qp, QpInit, Receives};
use crate::qpn_range::QpnRange;
use crate::queue::QueueLimits;
use crate::srq::SrqError;
use core::fmt;
use rand_core::Rng;
use roce_wire::Qpn;

/// Why no QP was created.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateQpError {
    /// All QPNs are in use.
    QpnsUsedUp {
        /// The number of QPs that can exist.
        max: usize,
    },
    /// The QP can't take its receives from this SRQ, or its XRC domain does not exist.
    Srq(SrqError),
}

impl From<SrqError> for CreateQpError {
    fn from(error: SrqError) -> Self {
        Self::Srq(error)
    }
}

impl fmt::Display for CreateQpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QpnsUsedUp { max } => {
                write!(f, "all {max} QPNs are in use: destroy a QP first")
            }
            Self::Srq(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for CreateQpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CreateQpError {}

impl Nic {
    /// Creates a QP in state RESET, with an unpredictable QPN.
    ///
    /// # Errors
    /// [`CreateQpError::QpnsUsedUp`] if all QPNs are in use: almost 2^24, or [`QpnRange::MAX_QPS`]
    /// of a range.
    pub fn create_qp(&mut self, init: QpInit) -> Result<Qpn, CreateQpError> {
        let receives = Receives::own(receive_limits(init.kind, init.recv));
        let qpn = self.free_qpn()?;
        Ok(self.insert_qp(qpn, init, receives))
    }

    /// Draws a QPN that is not in use, and was not in use a short while ago.
    pub(super) fn free_qpn(&mut self) -> Result<Qpn, CreateQpError> {
        let max = self.part.map_or((1 << 24) - 1024, |_| QpnRange::MAX_QPS);
        if self.qps.len() >= max {
            return Err(CreateQpError::QpnsUsedUp { max });
        }
        // Half of the numbers that are not in use can be drawn, so a few draws find one.
        let unused = max + 1024 - self.qps.len();
        self.freed_qpns.keep_at_most(unused / 2);
        loop {
            let drawn = self.rng.next_u32();
            let bits = self.part.map_or(drawn & 0xff_ffff, |part| part.pick(drawn));
            // 0 and 1 are the management QPs; 0xffffff is for multicast.
            let is_taken =
                self.qps.contains(Qpn::from_bits(bits)) || self.freed_qpns.contains(bits);
            if bits > 1 && bits != 0xff_ffff && !is_taken {
                // rule: 11.2.5.1-qpn-unique
                return Ok(Qpn::from_bits(bits));
            }
        }
    }

    pub(super) fn insert_qp(&mut self, qpn: Qpn, init: QpInit, receives: Receives) -> Qpn {
        let trace = self.observed.new_trace();
        self.qps.insert(qpn, Qp::new(qpn, init, receives), trace);
        qpn
    }
}

/// The size of a QP's receive queue, given the size that was asked for.
fn receive_limits(kind: QpKind, asked: QueueLimits) -> QueueLimits {
    if kind.is_xrc() {
        QueueLimits {
            depth: 0,
            max_sge: 0,
        }
    } else {
        asked
    }
}

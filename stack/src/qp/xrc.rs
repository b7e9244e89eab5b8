//! The parts of an XRC QP that RC lacks (IBTA 1.7, annex A14).

use super::Qp;
use crate::ids::XrcdId;

impl Qp {
    /// The XRC domain whose SRQs requests may name; `None` if the QP is not an XRC target.
    pub(crate) fn domain(&self) -> Option<XrcdId> {
        self.service.receives().domain()
    }
}

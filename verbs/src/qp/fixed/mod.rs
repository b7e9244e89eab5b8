//! The attributes of QPs that have one value on this NIC, and attributes that it ignores.

use super::QueuePair;
use crate::device::{WrongPort, check_port};
use crate::error::ConnectError;
use core::fmt;
use roce_stack::{QpAttributes, QpKind, QpState};

/// Attributes of a transition that change nothing: the NIC has one port, one P_Key and one path. Programs for
/// any RDMA NIC set them nevertheless (IBTA 1.7, table 91). Those that are `None` or false are not set.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedAttributes {
    /// The state that the program expects the QP to be in.
    pub current_state: Option<QpState>,
    /// Whether the program says if an event reports that the send queue is drained.
    pub sets_drain_event: bool,
    /// The index of the P_Key.
    pub pkey_index: Option<u16>,
    /// The port.
    pub port: Option<u32>,
    /// Whether the QP has migrated to the path that it has.
    pub is_migrated: Option<bool>,
}

/// Why such attributes are refused. The text has the names of C.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixedAttributesError {
    /// The transition needs an attribute that is not set.
    Missing(QpState, QpState, &'static str),
    /// The transition does not take an attribute that is set.
    NotAllowed(QpState, QpState, &'static str),
    /// The QP is not in the state that the program expects.
    State {
        /// The state that the program expects.
        expected: QpState,
        /// The QP's state.
        found: QpState,
    },
    /// The QP has not migrated.
    NotMigrated,
    /// The port does not exist.
    Port(WrongPort),
    /// The P_Key does not exist.
    PKeyIndex(u16),
}

impl fmt::Display for FixedAttributesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(from, to, attribute) => {
                let (from, to) = (from.name(), to.name());
                write!(
                    f,
                    "{from} to {to}: attr_mask lacks {attribute}, which this transition requires"
                )
            }
            Self::NotAllowed(from, to, attribute) => {
                let (from, to) = (from.name(), to.name());
                write!(
                    f,
                    "{from} to {to}: {attribute} can't be set in this transition"
                )
            }
            Self::State { expected, found } => {
                let (expected, found) = (expected.name(), found.name());
                write!(f, "cur_qp_state is {expected}, but the QP is in {found}")
            }
            Self::NotMigrated => {
                f.write_str("path_mig_state must be IBV_MIG_MIGRATED: there is no other path")
            }
            Self::Port(wrong) => wrong.fmt(f),
            Self::PKeyIndex(index) => write!(
                f,
                "pkey_index is {index}, but the device has only one P_Key, at index 0"
            ),
        }
    }
}

debug_as_display!(FixedAttributesError);

impl std::error::Error for FixedAttributesError {}

const STATE: &str = "IBV_QP_CUR_STATE";
const DRAIN_EVENT: &str = "IBV_QP_EN_SQD_ASYNC_NOTIFY";
const PKEY_INDEX: &str = "IBV_QP_PKEY_INDEX";
const PORT: &str = "IBV_QP_PORT";
const MIGRATION: &str = "IBV_QP_PATH_MIG_STATE";

/// The attributes that a transition needs, and those that it takes.
fn rules(
    kind: QpKind,
    from: QpState,
    to: QpState,
) -> (&'static [&'static str], &'static [&'static str]) {
    use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
    match (from, to) {
        (Reset, Init) => (&[PKEY_INDEX, PORT], &[]),
        (Init, Init) => (&[], &[PKEY_INDEX, PORT]),
        (Init, Rtr) => (&[], &[PKEY_INDEX]),
        // A UD QP has no path that could migrate: each datagram has its own destination.
        (Rtr | Rts | Sqd, Rts) if kind == QpKind::Ud => (&[], &[STATE]),
        (Rtr | Rts | Sqd, Rts) => (&[], &[STATE, MIGRATION]),
        (Sqe, Rts) => (&[], &[STATE]),
        (Rts, Sqd) => (&[], &[DRAIN_EVENT]),
        (Sqd, Sqd) if kind == QpKind::Ud => (&[], &[PKEY_INDEX]),
        (Sqd, Sqd) => (&[], &[PKEY_INDEX, PORT, MIGRATION]),
        _ => (&[], &[]),
    }
}

impl FixedAttributes {
    fn check(&self, kind: QpKind, from: QpState, to: QpState) -> Result<(), FixedAttributesError> {
        let (needs, takes) = rules(kind, from, to);
        for (attribute, is_set) in [
            (STATE, self.current_state.is_some()),
            (DRAIN_EVENT, self.sets_drain_event),
            (PKEY_INDEX, self.pkey_index.is_some()),
            (PORT, self.port.is_some()),
            (MIGRATION, self.is_migrated.is_some()),
        ] {
            if !is_set && needs.contains(&attribute) {
                return Err(FixedAttributesError::Missing(from, to, attribute));
            }
            if is_set && !needs.contains(&attribute) && !takes.contains(&attribute) {
                return Err(FixedAttributesError::NotAllowed(from, to, attribute));
            }
        }
        if let Some(expected) = self.current_state.filter(|expected| *expected != from) {
            let found = from;
            return Err(FixedAttributesError::State { expected, found });
        }
        if self.is_migrated == Some(false) {
            return Err(FixedAttributesError::NotMigrated);
        }
        if let Some(port) = self.port {
            check_port(port).map_err(FixedAttributesError::Port)?;
        }
        match self.pkey_index {
            Some(index @ 1..) => Err(FixedAttributesError::PKeyIndex(index)),
            _ => Ok(()),
        }
    }
}

impl QueuePair {
    /// Checks attributes that change nothing, for a transition to the state `to`, or in the present state.
    ///
    /// # Errors
    /// If one is missing or not allowed in the transition, or has not the only valid value.
    pub fn check_fixed(
        &self,
        to: Option<QpState>,
        fixed: &FixedAttributes,
    ) -> Result<(), FixedAttributesError> {
        let (from, _) = self.query();
        fixed.check(self.kind, from, to.unwrap_or(from))
    }

    /// Changes attributes and state, as [`QueuePair::modify`] does, for a program that is written for any RDMA
    /// NIC. Attributes of the end that an XRC QP does not have are ignored, as NICs do. A UD QP that goes to RTR
    /// receives packets to any address of the device.
    ///
    /// # Errors
    /// As for [`QueuePair::modify`] and [`Context::activate_all`](crate::Context::activate_all).
    pub fn modify_portably(&self, mut attributes: QpAttributes) -> Result<(), ConnectError> {
        if self.kind == QpKind::XrcInitiator {
            (attributes.max_dest_rd_atomic, attributes.min_rnr_timer) = (None, None);
        }
        if self.kind == QpKind::XrcTarget {
            (attributes.retry_cnt, attributes.rnr_retry) = (None, None);
            attributes.max_rd_atomic = None;
        }
        if self.kind == QpKind::Ud && attributes.state == Some(QpState::Rtr) {
            self.pd.context.activate_all()?;
        }
        Ok(self.modify(&attributes)?)
    }
}

#[cfg(test)]
mod tests;

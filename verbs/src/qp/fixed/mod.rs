//! The attributes of QPs that have one value on this NIC, and attributes that it ignores.

use super::QueuePair;
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
    /// Whether the program sets the port.
    pub sets_port: bool,
    /// Whether the QP has migrated to the path that it has.
    pub is_migrated: Option<bool>,
}

/// Why such attributes are refused: one is missing or not allowed in the transition, or has not its only value.
/// The text has the names of C.
#[derive(Clone, PartialEq, Eq)]
pub struct FixedAttributesError(String);

impl fmt::Display for FixedAttributesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
        let refuse = |why| Err(FixedAttributesError(why));
        let transition = format!("{} to {}", from.name(), to.name());
        for (attribute, is_set) in [
            (STATE, self.current_state.is_some()),
            (DRAIN_EVENT, self.sets_drain_event),
            (PKEY_INDEX, self.pkey_index.is_some()),
            (PORT, self.sets_port),
            (MIGRATION, self.is_migrated.is_some()),
        ] {
            let is_needed = needs.contains(&attribute);
            if !is_set && is_needed {
                return refuse(format!(
                    "{transition}: attr_mask lacks {attribute}, which this transition requires"
                ));
            }
            if is_set && !is_needed && !takes.contains(&attribute) {
                return refuse(format!(
                    "{transition}: {attribute} can't be set in this transition"
                ));
            }
        }
        match (self.current_state, self.is_migrated, self.pkey_index) {
            (Some(state), ..) if state != from => refuse(format!(
                "cur_qp_state is {}, but the QP is in {}",
                state.name(),
                from.name()
            )),
            (_, Some(false), _) => {
                refuse("path_mig_state must be IBV_MIG_MIGRATED: there is no other path".to_owned())
            }
            (.., Some(index @ 1..)) => refuse(format!(
                "pkey_index is {index}, but the device has only one P_Key, at index 0"
            )),
            _ => Ok(()),
        }
    }
}

impl QueuePair {
    /// Checks attributes that change nothing, for a transition to the state `to`, or in the present state.
    ///
    /// # Errors
    /// See [`FixedAttributesError`].
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

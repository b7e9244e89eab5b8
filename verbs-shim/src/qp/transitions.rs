//! Checks the attributes of a QP transition that only the C API has: the port, the P_Key index, the
//! current state, the SQD notification and the path migration state (IBTA 1.7, table 91). The stack
//! checks the other attributes.

use crate::abi::*;
use crate::log;
use nix::errno::Errno;
use roce_verbs::QpKind;
use roce_verbs::qp::QpState;

/// Every bit of `enum ibv_qp_attr_mask` but those of raw packets.
const ALL: u32 = QP_DEST_QPN | (QP_DEST_QPN - 1) | QP_RATE_LIMIT;

/// The attributes that this module checks, by their names in C.
const CHECKED: [(u32, &str); 5] = [
    (QP_CUR_STATE, "IBV_QP_CUR_STATE"),
    (QP_EN_SQD_ASYNC_NOTIFY, "IBV_QP_EN_SQD_ASYNC_NOTIFY"),
    (QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"),
    (QP_PORT, "IBV_QP_PORT"),
    (QP_PATH_MIG_STATE, "IBV_QP_PATH_MIG_STATE"),
];

/// The required and the optional attributes of a transition.
fn rules(kind: QpKind, from: QpState, to: QpState) -> (u32, u32) {
    use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
    // A UD QP has no path that could migrate: each datagram has its own destination.
    let migration = match kind {
        QpKind::Ud => 0,
        _ => QP_PATH_MIG_STATE,
    };
    match (from, to) {
        (Reset, Init) => (QP_PKEY_INDEX | QP_PORT, 0),
        (Init, Init) => (0, QP_PKEY_INDEX | QP_PORT),
        (Init, Rtr) => (0, QP_PKEY_INDEX),
        (Rtr | Rts | Sqd, Rts) => (0, QP_CUR_STATE | migration),
        (Sqe, Rts) => (0, QP_CUR_STATE),
        (Rts, Sqd) => (0, QP_EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) if kind == QpKind::Ud => (0, QP_PKEY_INDEX),
        (Sqd, Sqd) => (0, QP_PKEY_INDEX | QP_PORT | migration),
        _ => (0, 0),
    }
}

/// # Errors
/// `EINVAL`, which `ROCE_LOG` explains, if an attribute is missing or not allowed.
pub(super) fn check(kind: QpKind, from: QpState, to: QpState, mask: u32) -> Result<(), Errno> {
    let refuse = |what: std::fmt::Arguments<'_>| {
        let transition = || format!("{} to {}: {what}", from.name(), to.name());
        Err(log::with_reason(Errno::EINVAL, transition))
    };
    if mask & !ALL != 0 {
        return refuse(format_args!(
            "attr_mask has unknown bits: {:#x}",
            mask & !ALL
        ));
    }
    let (required, optional) = rules(kind, from, to);
    for (bit, name) in CHECKED {
        if required & bit != 0 && mask & bit == 0 {
            return refuse(format_args!(
                "attr_mask lacks {name}, which this transition requires"
            ));
        }
        if mask & bit != 0 && (required | optional) & bit == 0 {
            return refuse(format_args!("{name} can't be set in this transition"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use QpState::{Err as Error, Init, Reset, Rtr, Rts, Sqd};

    #[test]
    fn a_port_and_a_partition_are_needed_once() {
        let both = QP_PORT | QP_PKEY_INDEX;
        for kind in [
            QpKind::Rc,
            QpKind::Uc,
            QpKind::Ud,
            QpKind::XrcInitiator,
            QpKind::XrcTarget,
        ] {
            let init = |mask| check(kind, Reset, Init, QP_STATE | mask);
            assert_eq!(init(both), Ok(()), "{kind:?}");
            for mask in [0, QP_PORT, QP_PKEY_INDEX] {
                assert_eq!(init(mask), Err(Errno::EINVAL), "{kind:?} {mask:#x}");
            }
            assert_eq!(check(kind, Init, Init, 0), Ok(()));
            assert_eq!(check(kind, Init, Rtr, QP_PORT), Err(Errno::EINVAL));
            assert_eq!(check(kind, Rts, Error, QP_STATE), Ok(()));
            assert_eq!(check(kind, Rts, Reset, QP_PORT), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn what_is_not_of_a_transition_is_refused() {
        let rc = |from, to, mask| check(QpKind::Rc, from, to, mask);
        assert_eq!(rc(Rtr, Rts, QP_CUR_STATE | QP_PATH_MIG_STATE), Ok(()));
        assert_eq!(rc(Init, Rtr, QP_CUR_STATE), Err(Errno::EINVAL));
        assert_eq!(rc(Rts, Sqd, QP_EN_SQD_ASYNC_NOTIFY), Ok(()));
        assert_eq!(rc(Rts, Rts, QP_EN_SQD_ASYNC_NOTIFY), Err(Errno::EINVAL));
        assert_eq!(rc(Sqd, Sqd, QP_PORT), Ok(()));
        let ud = |mask| check(QpKind::Ud, Sqd, Sqd, mask);
        assert_eq!(ud(QP_PORT), Err(Errno::EINVAL));
        assert_eq!(ud(QP_PATH_MIG_STATE), Err(Errno::EINVAL));
        assert_eq!(rc(Rts, Rts, 1 << 31), Err(Errno::EINVAL));
    }
}

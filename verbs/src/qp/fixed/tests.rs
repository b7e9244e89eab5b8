use super::*;
use QpState::{Err as Error, Init, Reset, Rtr, Rts, Sqd};

const NONE: FixedAttributes = FixedAttributes {
    current_state: None,
    sets_drain_event: false,
    pkey_index: None,
    sets_port: false,
    is_migrated: None,
};
const PKEY_ONLY: FixedAttributes = FixedAttributes {
    pkey_index: Some(0),
    ..NONE
};
const PORT_ONLY: FixedAttributes = FixedAttributes {
    sets_port: true,
    ..NONE
};

fn refused(why: &str) -> Result<(), FixedAttributesError> {
    Err(FixedAttributesError(why.to_owned()))
}

fn not_allowed(from: QpState, to: QpState, attribute: &str) -> Result<(), FixedAttributesError> {
    let (from, to) = (from.name(), to.name());
    refused(&format!(
        "{from} to {to}: {attribute} can't be set in this transition"
    ))
}

#[test]
fn a_port_and_a_partition_are_needed_once() {
    let both = FixedAttributes {
        sets_port: true,
        ..PKEY_ONLY
    };
    for kind in QpKind::ALL {
        let init = |fixed: FixedAttributes| fixed.check(kind, Reset, Init);
        assert_eq!(init(both), Ok(()), "{kind:?}");
        let missing = |attribute: &str| {
            refused(&format!(
                "RESET to INIT: attr_mask lacks {attribute}, which this transition requires"
            ))
        };
        assert_eq!(init(NONE), missing(PKEY_INDEX), "{kind:?}");
        assert_eq!(init(PORT_ONLY), missing(PKEY_INDEX), "{kind:?}");
        assert_eq!(init(PKEY_ONLY), missing(PORT), "{kind:?}");
        assert_eq!(NONE.check(kind, Init, Init), Ok(()));
        assert_eq!(NONE.check(kind, Rts, Error), Ok(()));
        for (from, to) in [(Init, Rtr), (Rts, Reset)] {
            assert_eq!(PORT_ONLY.check(kind, from, to), not_allowed(from, to, PORT));
        }
    }
}

#[test]
fn what_is_not_of_a_transition_is_refused() {
    let rc = |from, to, fixed: FixedAttributes| fixed.check(QpKind::Rc, from, to);
    let expects = |state| FixedAttributes {
        current_state: Some(state),
        ..NONE
    };
    let migrated = FixedAttributes {
        is_migrated: Some(true),
        ..NONE
    };
    let drain = FixedAttributes {
        sets_drain_event: true,
        ..NONE
    };
    let both = FixedAttributes {
        is_migrated: Some(true),
        ..expects(Rtr)
    };
    assert_eq!(rc(Rtr, Rts, both), Ok(()));
    assert_eq!(rc(Init, Rtr, expects(Init)), not_allowed(Init, Rtr, STATE));
    assert_eq!(rc(Rts, Sqd, drain), Ok(()));
    assert_eq!(rc(Rts, Rts, drain), not_allowed(Rts, Rts, DRAIN_EVENT));
    assert_eq!(rc(Sqd, Sqd, PORT_ONLY), Ok(()));
    let ud = |from, to, fixed: FixedAttributes| fixed.check(QpKind::Ud, from, to);
    assert_eq!(ud(Sqd, Sqd, PORT_ONLY), not_allowed(Sqd, Sqd, PORT));
    assert_eq!(ud(Sqd, Sqd, migrated), not_allowed(Sqd, Sqd, MIGRATION));
    assert_eq!(ud(Rtr, Rts, migrated), not_allowed(Rtr, Rts, MIGRATION));
}

#[test]
fn each_has_one_value() {
    let rc = |from, to, fixed: FixedAttributes| fixed.check(QpKind::Rc, from, to);
    let expected = FixedAttributes {
        current_state: Some(Sqd),
        ..NONE
    };
    let wrong = refused("cur_qp_state is SQD, but the QP is in RTS");
    assert_eq!(rc(Rts, Rts, expected), wrong);
    let migrating = FixedAttributes {
        is_migrated: Some(false),
        ..NONE
    };
    let wrong = refused("path_mig_state must be IBV_MIG_MIGRATED: there is no other path");
    assert_eq!(rc(Rtr, Rts, migrating), wrong);
    let second = FixedAttributes {
        pkey_index: Some(1),
        ..PORT_ONLY
    };
    let wrong = refused("pkey_index is 1, but the device has only one P_Key, at index 0");
    assert_eq!(rc(Reset, Init, second), wrong);
}

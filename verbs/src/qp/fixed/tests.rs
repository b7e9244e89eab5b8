use super::*;
use FixedAttributesError::{Missing, NotAllowed, NotMigrated, PKeyIndex, Port, State};
use QpState::{Err as Error, Init, Reset, Rtr, Rts, Sqd};

const NONE: FixedAttributes = FixedAttributes {
    current_state: None,
    sets_drain_event: false,
    pkey_index: None,
    port: None,
    is_migrated: None,
};
const PKEY_ONLY: FixedAttributes = FixedAttributes {
    pkey_index: Some(0),
    ..NONE
};
const PORT_ONLY: FixedAttributes = FixedAttributes {
    port: Some(1),
    ..NONE
};

#[test]
fn a_port_and_a_partition_are_needed_once() {
    let both = FixedAttributes {
        port: Some(1),
        ..PKEY_ONLY
    };
    for kind in QpKind::ALL {
        let init = |fixed: FixedAttributes| fixed.check(kind, Reset, Init);
        assert_eq!(init(both), Ok(()), "{kind:?}");
        let missing = |attribute| Err(Missing(Reset, Init, attribute));
        assert_eq!(init(NONE), missing(PKEY_INDEX), "{kind:?}");
        assert_eq!(init(PORT_ONLY), missing(PKEY_INDEX), "{kind:?}");
        assert_eq!(init(PKEY_ONLY), missing(PORT), "{kind:?}");
        assert_eq!(NONE.check(kind, Init, Init), Ok(()));
        assert_eq!(NONE.check(kind, Rts, Error), Ok(()));
        for (from, to) in [(Init, Rtr), (Rts, Reset)] {
            let refused = Err(NotAllowed(from, to, PORT));
            assert_eq!(PORT_ONLY.check(kind, from, to), refused);
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
    let refused = |from, to, attribute| Err(NotAllowed(from, to, attribute));
    assert_eq!(rc(Init, Rtr, expects(Init)), refused(Init, Rtr, STATE));
    assert_eq!(rc(Rts, Sqd, drain), Ok(()));
    assert_eq!(rc(Rts, Rts, drain), refused(Rts, Rts, DRAIN_EVENT));
    assert_eq!(rc(Sqd, Sqd, PORT_ONLY), Ok(()));
    let ud = |from, to, fixed: FixedAttributes| fixed.check(QpKind::Ud, from, to);
    assert_eq!(ud(Sqd, Sqd, PORT_ONLY), refused(Sqd, Sqd, PORT));
    assert_eq!(ud(Sqd, Sqd, migrated), refused(Sqd, Sqd, MIGRATION));
    assert_eq!(ud(Rtr, Rts, migrated), refused(Rtr, Rts, MIGRATION));
}

#[test]
fn each_has_one_value() {
    let rc = |from, to, fixed: FixedAttributes| fixed.check(QpKind::Rc, from, to);
    let expected = FixedAttributes {
        current_state: Some(Sqd),
        ..NONE
    };
    let wrong = State {
        expected: Sqd,
        found: Rts,
    };
    assert_eq!(rc(Rts, Rts, expected), Err(wrong));
    let migrating = FixedAttributes {
        is_migrated: Some(false),
        ..NONE
    };
    assert_eq!(rc(Rtr, Rts, migrating), Err(NotMigrated));
    let with = |pkey, port| FixedAttributes {
        pkey_index: Some(pkey),
        port: Some(port),
        ..NONE
    };
    assert_eq!(rc(Reset, Init, with(0, 2)), Err(Port(WrongPort(2))));
    assert_eq!(rc(Reset, Init, with(1, 1)), Err(PKeyIndex(1)));
}

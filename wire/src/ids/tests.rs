use std::format;

use super::*;

#[test]
fn qpn_holds_24_bits() {
    assert_eq!(Qpn::new(0x00ff_ffff), Some(Qpn::MULTICAST));
    assert_eq!(Qpn::new(0x0100_0000), None);
    assert_eq!(Qpn::from_bits(0xff00_0001), Qpn::QP1);
    assert_eq!(format!("{:?}", Qpn::QP1), "Qpn(0x000001)");
}

// shows: 10.9.1-membership, 10.9.3-match
#[test]
fn pkeys_match_unless_both_are_limited() {
    let full = PKey(0x8123);
    let limited = PKey(0x0123);
    assert!(full.matches(full));
    assert!(full.matches(limited));
    assert!(limited.matches(full));
    assert!(!limited.matches(limited));
    assert!(!full.matches(PKey(0x8124)));
    assert!(PKey::DEFAULT.matches(PKey(0x7fff)));
}

// shows: 10.9.3-invalid
#[test]
fn pkeys_without_a_base_match_nothing() {
    for key in [PKey(0), PKey(0x8000)] {
        for other in [PKey(0), PKey(0x8000), PKey::DEFAULT] {
            assert!(!key.matches(other), "{key:?} {other:?}");
            assert!(!other.matches(key), "{other:?} {key:?}");
        }
    }
}

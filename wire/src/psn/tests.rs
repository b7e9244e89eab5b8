use std::format;

use super::*;
use crate::testing::Numbers;

const END: u32 = 1 << 24;

#[test]
fn new_masks_and_try_new_refuses() {
    assert_eq!(Psn::new(END + 5), Psn::new(5));
    assert_eq!(Psn::new(u32::MAX), Psn::MAX);
    assert_eq!(Psn::try_new(END - 1), Some(Psn::MAX));
    assert_eq!(Psn::try_new(END), None);
    assert_eq!(Psn::try_new(u32::MAX), None);
}

// shows: 9.7.1-psn-modulo
#[test]
fn addition_wraps_at_24_bits() {
    assert_eq!(Psn::MAX.next(), Psn::ZERO);
    assert_eq!(Psn::MAX.add(2), Psn::new(1));
    assert_eq!(Psn::MAX + 2, Psn::new(1));
    assert_eq!(Psn::ZERO.back(1), Psn::MAX);
    assert_eq!(Psn::new(7).add(END), Psn::new(7));
    assert_eq!(Psn::new(7).add(u32::MAX), Psn::new(6));
}

// shows: 9.7.1-psn-order
#[test]
fn diff_is_signed_and_wraps() {
    assert_eq!(Psn::ZERO.diff(Psn::MAX), 1);
    assert_eq!(Psn::MAX.diff(Psn::ZERO), -1);
    assert_eq!(Psn::new(5).diff(Psn::new(5)), 0);
    // Half of the space is the largest distance back.
    assert_eq!(Psn::new(1 << 23).diff(Psn::ZERO), -(1 << 23));
    assert_eq!(Psn::ZERO.diff(Psn::new(1 << 23)), -(1 << 23));
    assert_eq!(Psn::new((1 << 23) - 1).diff(Psn::ZERO), (1 << 23) - 1);
}

// shows: 9.7.1-psn-order
#[test]
fn diff_undoes_add() {
    let mut numbers = Numbers(1);
    for _ in 0..10_000 {
        let start = Psn::new(numbers.word());
        let distance = (numbers.word() << 8) as i32 >> 8;
        let end = start.add(distance as u32);
        assert_eq!(end.diff(start), distance);
        assert_eq!(end.back(distance as u32), start);
    }
}

#[test]
fn prints_in_hex() {
    assert_eq!(
        format!("{} {:?}", Psn::new(0xab), Psn::MAX),
        "0x0000ab Psn(0xffffff)"
    );
}

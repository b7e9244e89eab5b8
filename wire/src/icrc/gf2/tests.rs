use super::*;
use crate::testing::Numbers;

fn shift(register: u32, bytes: usize) -> u32 {
    (0..bytes).fold(register, |register, _| times_x8(register))
}

#[test]
fn register_is_that_of_the_crc() {
    let mut numbers = Numbers(20);
    for len in 0..100 {
        let bytes = numbers.bytes(len);
        assert_eq!(!register(&bytes), crc32fast::hash(&bytes));
    }
}

#[test]
fn dividing_undoes_multiplying() {
    let mut numbers = Numbers(21);
    for _ in 0..1_000 {
        let a = numbers.word();
        assert_eq!(over_x(times_x(a)), a);
        assert_eq!(times_x(over_x(a)), a);
    }
}

#[test]
fn carryless_products_agree_with_long_multiplication() {
    let mut numbers = Numbers(22);
    let edges = [0, 1, u32::MAX, 1 << 31, 0x1111_1111, 0x8888_8888];
    let drawn: std::vec::Vec<_> = (0..200).map(|_| numbers.word()).collect();
    for &a in edges.iter().chain(&drawn) {
        for &b in edges.iter().chain(&drawn) {
            let long = (0..32)
                .filter(|i| b >> i & 1 != 0)
                .fold(0, |sum, i| sum ^ u64::from(a) << i);
            assert_eq!(carryless(a, b), long, "{a:#x} {b:#x}");
        }
    }
}

#[test]
fn products_of_powers_are_powers() {
    let mut numbers = Numbers(23);
    let x = times_x(ONE);
    for _ in 0..1_000 {
        let a = numbers.word();
        assert_eq!(product(a, ONE), a);
        assert_eq!(product(a, x), times_x(a));
        let b = numbers.word();
        assert_eq!(product(a, b), product(b, a));
        assert_eq!(
            product(times_x8(a), over_x(b)),
            times_x8(over_x(product(a, b)))
        );
    }
}

#[test]
fn unshift_undoes_any_number_of_zeros() {
    let mut numbers = Numbers(24);
    let start = numbers.word();
    let mut register = start;
    for bytes in 0..1 << 16 {
        assert_eq!(unshift(register, bytes), Some(start), "{bytes}");
        register = times_x8(register);
    }
    assert_eq!(unshift(register, 1 << 16), None);
    assert_eq!(unshift(register, usize::MAX), None);
}

#[test]
fn images_are_what_bytes_add() {
    let mut numbers = Numbers(25);
    for distance in 4..=MAX_DISTANCE {
        let bytes: [u8; 4] = numbers.array();
        assert_eq!(
            image(bytes, distance),
            shift(u32::from_le_bytes(bytes), distance),
            "{distance}"
        );
    }
}

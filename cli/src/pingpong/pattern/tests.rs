use super::*;

const SIZES: [usize; 8] = [0, 1, 2, 4095, 4096, 4097, 8192, 100_000];

fn message(pattern: &Pattern, number: u64) -> Vec<u8> {
    let mut out = vec![POISON; pattern.size];
    pattern.fill(number, &mut out);
    out
}

#[test]
fn what_is_filled_passes_the_check() {
    for size in SIZES {
        let pattern = Pattern::new(size);
        for number in [0, 1, 250, 251, u64::MAX] {
            let data = message(&pattern, number);
            assert_eq!(pattern.check(number, &data), Ok(()), "{size} bytes");
            assert!(!Pattern::is_fill(&data));
        }
    }
}

#[test]
fn pages_begin_with_zero_as_the_original_checks() {
    let data = message(&Pattern::new(10_000), 7);
    assert_eq!([data[0], data[4096], data[8192]], [0; 3]);
    assert!(!data.contains(&FILL));
}

#[test]
fn every_wrong_byte_is_found_where_it_is() {
    let size = 9000;
    let pattern = Pattern::new(size);
    for offset in [0, 1, 4095, 4096, 4097, 8192, size - 1] {
        let mut data = message(&pattern, 3);
        let expected = data[offset];
        data[offset] ^= 1;
        let found = data[offset];
        let mismatch = Mismatch {
            offset,
            found,
            expected,
        };
        assert_eq!(pattern.check(3, &data), Err(mismatch));
    }
}

#[test]
fn another_message_or_a_shifted_one_differs() {
    let pattern = Pattern::new(65_536);
    let data = message(&pattern, 5);
    assert!(pattern.check(6, &data).is_err());
    for mtu in [256, 512, 1024, 2048, 4096] {
        let mut shifted = data.clone();
        shifted.copy_within(mtu..2 * mtu, 0);
        assert!(pattern.check(5, &shifted).is_err(), "{mtu}");
    }
}

#[test]
fn a_message_of_the_original_is_known_and_checked() {
    let mut data = vec![FILL; 9000];
    for at in [0, 4096, 8192] {
        data[at] = 0;
    }
    assert!(Pattern::is_fill(&data));
    assert_eq!(Pattern::check_fill(&data), Ok(()));
    data[4096] = FILL;
    let mismatch = Mismatch {
        offset: 4096,
        found: FILL,
        expected: 0,
    };
    assert_eq!(Pattern::check_fill(&data), Err(mismatch));
    assert_eq!(mismatch.to_string(), "byte 4096 is 0x7b instead of 0x00");
}

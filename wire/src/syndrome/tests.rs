use super::*;

/// IBTA 1.7, 9.7.7.2: receives by code, 0 to 30.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

/// IBTA 1.7, 9.7.5.2.8: hundredths of milliseconds by code.
const RNR_TIMERS: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

// shows: 9.3.5-syndrome-kinds
#[test]
fn every_byte_makes_the_round_trip() {
    for byte in 0..=255 {
        assert_eq!(Syndrome::from_byte(byte).byte(), byte, "{byte:#04x}");
    }
}

// shows: 9.3.5-syndrome-kinds
#[test]
fn upper_bits_name_the_kind() {
    for byte in 0..=255 {
        let syndrome = Syndrome::from_byte(byte);
        let value = byte & 0x1f;
        match byte >> 5 {
            0b000 => assert_eq!(syndrome, Syndrome::Ack(Credits::from_code(value).unwrap())),
            0b001 => assert_eq!(
                syndrome,
                Syndrome::RnrNak(RnrTimer::from_code(value).unwrap())
            ),
            0b011 => assert_eq!(syndrome, Syndrome::Nak(NakCode::from_code(value))),
            _ => assert_eq!(syndrome, Syndrome::Reserved(byte)),
        }
    }
}

// shows: 9.3.5-credit-codes
#[test]
fn credits_decode_as_in_the_specification() {
    for (code, count) in (0..).zip(CREDITS) {
        assert_eq!(Credits::from_code(code).unwrap().count(), Some(count));
    }
    assert_eq!(Credits::from_code(31), Some(Credits::INVALID));
    assert_eq!(Credits::UNLIMITED.count(), None);
    assert_eq!(Credits::from_code(32), None);
}

// shows: 9.7.7.2-credits-not-above
#[test]
fn credits_of_a_count_are_the_largest_not_above() {
    for count in 0..70_000 {
        let expected = CREDITS.iter().rposition(|&c| c <= count).unwrap();
        assert_eq!(usize::from(Credits::from_count(count).code()), expected);
    }
    assert_eq!(Credits::from_count(u32::MAX).count(), Some(32768));
}

// shows: 9.3.5-rnr-codes
// trap: rnr-timer
#[test]
fn rnr_timers_are_those_of_the_specification() {
    for (code, hundredths) in (0..).zip(RNR_TIMERS) {
        let timer = RnrTimer::from_code(code).unwrap();
        assert_eq!(timer.code(), code);
        assert_eq!(
            timer.duration(),
            Duration::from_micros(10 * hundredths),
            "code {code}"
        );
    }
    assert_eq!(RnrTimer::from_code(32), None);
    assert_eq!(RnrTimer::LONGEST.duration(), Duration::from_micros(655_360));
    assert_eq!(RnrTimer::SHORTEST.duration(), Duration::from_micros(10));
}

// shows: 9.3.5-nak-codes
#[test]
fn nak_codes_are_those_of_the_specification() {
    let named = [
        NakCode::PsnSequenceError,
        NakCode::InvalidRequest,
        NakCode::RemoteAccessError,
        NakCode::RemoteOperationalError,
        NakCode::InvalidRdRequest,
    ];
    for (code, nak) in (0..).zip(named) {
        assert_eq!(NakCode::from_code(code), nak);
        assert_eq!(nak.code(), code);
    }
    for code in 5..32 {
        assert_eq!(NakCode::from_code(code), NakCode::Reserved(code));
    }
}

use super::*;

/// The error that a correct clock may have: one adjustment of the host's clock in a window, and the
/// error of a rate that has just been measured.
const TOLERANCE_NS: u64 = 10_000;

#[test]
fn the_device_clock_follows_the_host_clock() {
    let clock = DeviceClock::start().unwrap();
    let mut by_counter = 0;
    for _ in 0..200_000 {
        let before = monotonic_ns();
        let now = clock.now().as_nanos();
        let after = monotonic_ns();
        assert!(
            (before.saturating_sub(TOLERANCE_NS)..=after + TOLERANCE_NS).contains(&now),
            "the device clock says {now}, the host clock {before} to {after}"
        );
        let ticker = clock.ticker.as_ref();
        by_counter += u32::from(ticker.is_some_and(|t| t.at(counter::ticks()).is_some()));
    }
    assert_eq!(by_counter > 0, counter::keeps_time());
}

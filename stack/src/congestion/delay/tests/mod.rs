use super::*;

mod rests;

const PACKET: usize = 1086;

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

/// No scaling, so that numbers are round.
fn plain() -> DelayParameters {
    DelayParameters {
        fs_range: Duration::ZERO,
        base_target: us(100),
        ..DelayParameters::DEFAULT
    }
}

/// A whole window is acknowledged.
fn acked(packets: u64, round_trip: u64) -> Acked {
    Acked {
        packets,
        in_flight: packets,
        round_trip: Some(us(round_trip)),
    }
}

fn with_window(window: f64, p: &DelayParameters) -> Delay {
    let mut sender = Delay::new(PACKET, p);
    (sender.window, sender.slow_start) = (window, false);
    sender
}

fn assert_window(sender: &Delay, window: f64) {
    let error = (sender.window - window).abs();
    assert!(error < 1e-6, "{} for {window}", sender.window);
}

#[test]
fn it_starts_small_and_doubles_until_a_round_trip_is_too_long() {
    let p = plain();
    let mut sender = Delay::new(PACKET, &p);
    for window in [10, 20, 40] {
        assert_eq!(sender.congestion_window(), Some(window));
        sender.on_acked(at(100 * window), &acked(window, 50), &p);
    }
    sender.on_acked(at(10_000), &acked(80, 100), &p);
    assert_window(&sender, 80.0);
    sender.on_acked(at(11_000), &acked(80, 50), &p);
    assert_window(&sender, 81.0);
}

#[test]
fn short_round_trips_add_a_packet_each() {
    let p = plain();
    let mut sender = with_window(16.0, &p);
    sender.on_acked(at(0), &acked(16, 99), &p);
    assert_window(&sender, 17.0);
    // Half a window is acknowledged, so the window grows by half a packet.
    sender.on_acked(
        at(1),
        &Acked {
            packets: 8,
            ..acked(17, 99)
        },
        &p,
    );
    assert_window(&sender, 17.0 + 8.0 / 17.0);
}

/// Packets of an acknowledgement without a measured round trip count at the next acknowledgement
/// that has one.
#[test]
fn what_is_acknowledged_counts_once_a_round_trip_is_told() {
    let p = plain();
    let mut sender = with_window(16.0, &p);
    let untold = Acked {
        round_trip: None,
        ..acked(8, 0)
    };
    sender.on_acked(at(0), &untold, &p);
    assert_window(&sender, 16.0);
    sender.on_acked(at(0), &acked(8, 50), &p);
    assert_window(&sender, 17.0);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let p = plain();
    let mut sender = with_window(16.0, &p);
    sender.on_acked(at(0), &acked(7, 50), &p);
    assert_window(&sender, 16.0);
    sender.on_acked(at(0), &acked(8, 50), &p);
    assert_window(&sender, 16.5);
}

/// A cut is proportional to the excess of the round trip over the target, and no deeper than
/// configured. The next cut follows a round trip later at the earliest.
#[test]
fn long_round_trips_cut_by_their_excess() {
    let p = plain();
    let mut sender = with_window(100.0, &p);
    sender.on_acked(at(1000), &acked(1, 125), &p);
    // The cut is 0.8 * 25 / 125 of the window.
    assert_window(&sender, 84.0);
    sender.on_acked(at(1124), &acked(1, 125), &p);
    assert_window(&sender, 84.0);
    sender.on_acked(at(1125), &acked(1, 10_000), &p);
    assert_window(&sender, 42.0);
}

#[test]
fn losses_cut_by_the_most_and_timeouts_in_a_row_by_all() {
    let p = plain();
    let mut sender = with_window(100.0, &p);
    sender.on_acked(at(0), &acked(1, 50), &p);
    sender.on_loss(at(100), false, &p);
    sender.on_loss(at(149), false, &p);
    assert_window(&sender, 50.0);
    sender.on_loss(at(1000), true, &p);
    sender.on_loss(at(2000), true, &p);
    assert_window(&sender, 12.5);
    sender.on_loss(at(3000), true, &p);
    assert_window(&sender, p.min_window);
}

/// A window of less than a packet is a rate: that fraction of a packet in a round trip.
#[test]
fn a_small_window_is_a_pause_between_packets() {
    let p = plain();
    let mut sender = with_window(1.0, &p);
    sender.on_acked(at(0), &acked(1, 50), &p);
    assert_eq!(sender.rate(&p), None);
    sender.window = 0.5;
    sender.newest = us(200);
    let rate = sender.rate(&p).expect("limited");
    assert!((rate - 1086.0 * 8.0 / 400e-6).abs() < 1.0, "{rate}");
    assert_eq!(sender.congestion_window(), Some(1));
    sender.on_acked(at(1000), &acked(1, 50), &p);
    assert_window(&sender, 1.5);
}

/// A peer that answers ever later slows down its sender to the lowest rate, and no further. The
/// sender recovers.
#[test]
fn no_delay_brings_it_below_the_minimum() {
    let p = DelayParameters {
        base_memory: Duration::MAX,
        ..DelayParameters::DEFAULT
    };
    let mut sender = Delay::new(PACKET, &p);
    sender.on_acked(at(0), &acked(1, 10), &p);
    for n in 1..1000 {
        sender.on_acked(at(n * 10_000_000), &acked(1, 1_000_000), &p);
        sender.on_loss(at(n * 10_000_000), true, &p);
        assert!(sender.rate(&p).is_none_or(|rate| rate >= 1e6));
        assert_eq!(
            sender.congestion_window().map(|packets| packets >= 1),
            Some(true)
        );
    }
    assert_window(&sender, p.min_window);
    for n in 1..100 {
        sender.on_acked(at(10_000_000_000 + n * 1000), &acked(20, 10), &p);
    }
    assert!(sender.window > 5.0, "{}", sender.window);
}

/// The target follows the shortest round trip, and is longer for small windows.
#[test]
fn the_target_is_above_the_shortest_round_trip() {
    let p = DelayParameters::DEFAULT;
    let mut sender = with_window(1000.0, &p);
    sender.on_acked(at(0), &acked(1, 70), &p);
    assert_eq!(sender.target(&p), us(100));
    sender.on_acked(at(0), &acked(1, 20), &p);
    assert_eq!(sender.target(&p), us(50));
    sender.window = 0.1;
    assert_eq!(sender.target(&p), us(150));
    sender.window = 1.0;
    let between = sender.target(&p);
    assert!(between > us(80) && between < us(81), "{between:?}");
}

/// Parameters that make no sense, but are possible.
#[test]
fn odd_parameters_do_no_harm() {
    let p = DelayParameters {
        fs_min_window: 0.0,
        fs_max_window: 0.0,
        min_window: 9.0,
        max_window: 0.0,
        initial_window: 0,
        min_rate: 0,
        base_target: Duration::MAX,
        rest_interval: 0,
        base_memory: Duration::ZERO,
        fs_range: Duration::from_secs(1),
        ..DelayParameters::DEFAULT
    };
    let mut sender = Delay::new(PACKET, &p);
    sender.on_acked(at(0), &acked(1, 0), &p);
    sender.on_loss(at(1), true, &p);
    assert_eq!(sender.congestion_window(), Some(9));
    assert_eq!(sender.rate(&p), None);
}

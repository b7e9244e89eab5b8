//! When a sender rests, and what it learns from that.

use super::*;

/// The target is not configured.
fn learning() -> DelayParameters {
    DelayParameters {
        base_target: Duration::ZERO,
        ..plain()
    }
}

/// Many packets are in flight.
fn busy(round_trip: u64) -> Acked {
    Acked {
        in_flight: 64,
        ..acked(1, round_trip)
    }
}

/// Measures `trips` round trips of `round_trip` microseconds each, from the time `from` on, which
/// is in microseconds, too. Returns when the sender began and ended its rests, in microseconds.
fn measure(
    sender: &mut Delay,
    p: &DelayParameters,
    from: u64,
    round_trip: u64,
    trips: u64,
) -> Vec<u64> {
    let mut turns = Vec::new();
    for trip in 0..trips {
        let now = from + trip * round_trip;
        let rested = sender.rests.until.is_some();
        sender.on_acked(at(now), &busy(round_trip), p);
        if sender.rests.until.is_some() != rested {
            turns.push(now);
        }
    }
    turns
}

/// It rests for two round trips after 8 round trips, then after 16 and so on, up to the configured
/// maximum.
#[test]
fn it_rests_for_two_round_trips_ever_more_seldom() {
    let p = DelayParameters {
        rest_interval: 20,
        ..learning()
    };
    let mut sender = with_window(100.0, &p);
    let turns = measure(&mut sender, &p, 0, 100, 80);
    let expected = [8, 10, 24, 26, 44, 46, 64, 66];
    assert_eq!(turns, expected.map(|trip| trip * 100));
}

/// While it rests, little is in flight; then there is room for as much as before.
#[test]
fn a_rest_is_a_small_window() {
    let p = learning();
    let mut sender = with_window(100.0, &p);
    measure(&mut sender, &p, 0, 100, 9);
    let window = sender.window;
    assert!(window >= 100.0);
    assert_eq!(sender.congestion_window(), Some(REST_WINDOW));
    // Neither short nor long round trips change it now.
    sender.on_acked(at(850), &busy(10), &p);
    sender.on_acked(at(900), &busy(1000), &p);
    assert_window(&sender, window);
    // It aims at what it measured while it rested.
    assert_eq!(sender.target(&p), us(40));
    sender.on_acked(at(1000), &busy(39), &p);
    assert_eq!(sender.congestion_window(), Some(100));
}

#[test]
fn it_does_not_rest_at_the_start_nor_where_the_target_is_said() {
    let p = learning();
    let mut starts = Delay::new(PACKET, &p);
    assert_eq!(measure(&mut starts, &p, 0, 100, 1000), []);
    let said = plain();
    let mut sender = with_window(100.0, &said);
    assert_eq!(measure(&mut sender, &said, 0, 100, 1000), []);
}

/// Lets a sender with round trips of 100 us rest after about 8, 24, 56, 120 and 248 of them; from
/// then on it rests every 256. Returns the time, some 50 round trips after the last rest.
fn after_many(sender: &mut Delay, p: &DelayParameters) -> u64 {
    sender.on_acked(at(0), &busy(70), p);
    let turns = measure(sender, p, 100, 100, 300);
    assert_eq!(turns.len(), 10);
    assert!(turns[9].abs_diff(25_000) < 200, "{turns:?}");
    30_000
}

/// Another sender's rest removes more than half of the queue. A sender that rests at the same time
/// measures the round trip without the queue of either sender.
#[test]
fn it_rests_with_others_but_not_at_once_again() {
    let p = learning();
    let mut sender = with_window(100.0, &p);
    let now = after_many(&mut sender, &p);
    sender.on_acked(at(now + 100), &busy(84), &p);
    assert_eq!(sender.rests.until, None, "not so soon");
    let now = now + 200;
    assert_eq!(measure(&mut sender, &p, now, 100, 50), []);
    sender.on_acked(at(now + 5000), &busy(86), &p);
    assert_eq!(sender.rests.until, None, "more than half is left");
    sender.on_acked(at(now + 5010), &busy(84), &p);
    assert!(sender.rests.until.is_some());
}

/// If no queue was standing, a shorter round trip does not mean that another sender rests: the link
/// is free.
#[test]
fn it_does_not_rest_while_there_is_no_queue() {
    let p = learning();
    let mut sender = with_window(100.0, &p);
    let now = after_many(&mut sender, &p);
    assert_eq!(measure(&mut sender, &p, now, 90, 30), []);
    // The queue stands for the last time.
    assert_eq!(measure(&mut sender, &p, now + 2700, 100, 1), []);
    let idle = measure(&mut sender, &p, now + 2900, 86, 4);
    assert_eq!(idle, []);
    assert_eq!(measure(&mut sender, &p, now + 3300, 75, 100), []);
}

/// A sender that had little in flight, or nothing to send, need not rest to measure the empty
/// queue.
#[test]
fn who_has_little_to_send_does_not_rest() {
    let p = learning();
    let mut sender = with_window(100.0, &p);
    let now = after_many(&mut sender, &p);
    let few = Acked {
        in_flight: REST_WINDOW,
        ..busy(100)
    };
    for trip in 0..1000 {
        sender.on_acked(at(now + trip * 100), &few, &p);
        assert_eq!(sender.rests.until, None);
    }
    // A message every 65 round trips.
    for message in 0..100 {
        sender.on_acked(at(now + 100_000 + message * 6500), &busy(100), &p);
        assert_eq!(sender.rests.until, None);
    }
}

/// A path that becomes longer is detected once the memory of the shorter one has expired.
#[test]
fn what_was_seen_long_ago_is_forgotten() {
    let p = learning();
    let mut sender = with_window(100.0, &p);
    let second = 1_000_000;
    sender.on_acked(at(5 * second), &busy(20), &p);
    sender.on_acked(at(6 * second), &busy(90), &p);
    sender.on_acked(at(9 * second), &busy(80), &p);
    assert_eq!(sender.base.shortest, us(20));
    sender.on_acked(at(10 * second), &busy(100), &p);
    assert_eq!(sender.base.shortest, us(20), "twice its time at most");
    sender.on_acked(at(15 * second), &busy(110), &p);
    assert_eq!(sender.base.shortest, us(100));
}

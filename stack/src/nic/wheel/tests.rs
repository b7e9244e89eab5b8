use super::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// Timers are set, moved and stopped at random, at any distance: they expire as a plain map
/// predicts, at the predicted time, the earliest first.
#[test]
fn it_agrees_with_a_plain_map() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let mut wheel = Wheel::default();
    let mut map: BTreeMap<u32, Instant> = BTreeMap::new();
    let mut now = 0;
    let (mut taken, mut then) = (0, at(0));
    for _ in 0..100_000 {
        let timer = rng.next_u32() % 50;
        // Near and far, up to hours.
        let distance = rng.next_u64() >> (20 + rng.next_u32() % 44);
        match rng.next_u32() % 8 {
            0 => {
                wheel.set(timer, NEVER);
                map.remove(&timer);
            }
            1..5 => {
                // Occasionally it is overdue.
                let due = at((now + distance).saturating_sub(5));
                wheel.set(timer, due);
                map.insert(timer, due);
            }
            _ => now += distance >> 4,
        }
        let first = map.values().min().copied();
        assert!(wheel.next() <= first, "{:?}, {first:?}", wheel.next());
        assert_eq!(wheel.next().is_some(), first.is_some());
        assert_eq!(wheel.at(timer), map.get(&timer).copied().unwrap_or(NEVER));
        // Timers that were overdue when set come before all others.
        let mut before = then;
        while let Some(due) = wheel.take_due(at(now)) {
            let said = map.remove(&due).expect("it was set").max(then);
            assert!(said <= at(now));
            assert!(said >= before, "the earliest first");
            before = said;
            taken += 1;
        }
        then = at(now);
        assert!(map.values().all(|due| *due > at(now)), "nothing is late");
        assert_eq!(wheel.len(), map.len());
    }
    assert!(taken > 10_000, "{taken}");
}

/// The earliest comes first; of those with the same time, the one that was set first.
#[test]
fn those_that_are_due_come_in_their_order() {
    let mut wheel = Wheel::default();
    for (timer, ns) in [(0, 5000), (1, 300), (2, 70_000_000), (3, 300), (4, 299)] {
        wheel.set(timer, at(ns));
    }
    let due: Vec<u32> = core::iter::from_fn(|| wheel.take_due(at(1 << 40))).collect();
    assert_eq!(due, [4, 1, 3, 0, 2]);
}

/// A caller that waits for the next time is never called too late, and only a few times without
/// need.
#[test]
fn few_calls_are_for_nothing() {
    let mut wheel = Wheel::default();
    for timer in 0..1000 {
        wheel.set(timer, at(1_000_000_007 + u64::from(timer)));
    }
    let (mut calls, mut taken) = (0, 0);
    while let Some(next) = wheel.next() {
        calls += 1;
        while wheel.take_due(next).is_some() {
            taken += 1;
        }
    }
    assert_eq!(taken, 1000);
    assert!(calls < 1100, "{calls}");
}

#[test]
fn the_end_of_time_is_a_time() {
    let mut wheel = Wheel::default();
    wheel.set(0, at(u64::MAX - 1));
    wheel.set(1, NEVER);
    assert_eq!((wheel.len(), wheel.next()), (1, Some(at(u64::MAX - 1))));
    assert_eq!(wheel.take_due(at(u64::MAX - 2)), None);
    assert_eq!(wheel.take_due(at(u64::MAX)), Some(0));
    assert_eq!((wheel.len(), wheel.next()), (0, None));
}

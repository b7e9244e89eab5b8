use super::*;

fn lag(us: &[u64]) -> Lag {
    let mut lag = Lag::default();
    for us in us {
        lag.note(Duration::from_micros(*us));
    }
    lag
}

#[test]
fn without_events_nothing_is_late() {
    let lag = Lag::default();
    assert_eq!((lag.events(), lag.late()), (0, 0));
    assert_eq!(lag.quantile(0.99), Duration::ZERO);
}

#[test]
fn a_quantile_is_the_power_of_two_above_it() {
    let lag = lag(&[0, 0, 3, 100]);
    assert_eq!(lag.quantile(0.5), Duration::ZERO);
    assert_eq!(lag.quantile(0.75), Duration::from_micros(4));
    assert_eq!(lag.quantile(1.0), Duration::from_micros(100));
}

#[test]
fn more_than_a_millisecond_is_late() {
    let lag = lag(&[1, 999, 1000, 1001, u64::MAX / 1000]);
    assert_eq!((lag.events(), lag.late()), (5, 2));
    assert_eq!(lag.longest(), Duration::from_micros(u64::MAX / 1000));
}

#[test]
fn it_is_saturated_where_it_has_nothing_to_do_for_less_than_a_twentieth() {
    let mut lag = Lag::default();
    let ms = Duration::from_millis;
    // Windows of 100 ms: idle for 5 ms, for 4 ms, and one that has not ended.
    for (turns, idle) in [(10, 5), (10, 4), (9, 0)] {
        for turn in 0..turns {
            lag.note_turn(ms(10), ms(u64::from(turn < idle)));
        }
    }
    assert_eq!((lag.time(), lag.saturated()), (ms(200), ms(100)));
    // A turn may be longer than a window.
    lag.note_turn(ms(1000), ms(900));
    assert_eq!((lag.time(), lag.saturated()), (ms(1290), ms(100)));
}

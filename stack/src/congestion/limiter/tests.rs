use super::*;
use crate::congestion::{DcqcnParameters, DelayParameters};

/// A constant rate: no timer runs, and no bytes are counted.
fn steady(mbps: u32) -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnParameters {
        rate_to_set_on_first_cnp: mbps,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    })
}

fn limited(now: Instant, control: &CongestionControl) -> Limiter {
    Limiter::after_cnp(now, control).expect("limited")
}

const PACKET: usize = 4162;

/// Sends as much as allowed for `time`. Returns the bytes, the longest burst and the number of
/// wake-ups.
fn send(p: &CongestionControl, time: Duration) -> (u64, u64, u64) {
    let mut now = Instant::ZERO;
    let end = now + time;
    let mut limiter = limited(now, p);
    let (mut bytes, mut longest, mut pauses) = (0, 0, 0);
    while now < end {
        let packets = limiter.allowed(now, PACKET, p);
        let burst = (packets * PACKET) as u64;
        if packets > 0 {
            limiter.on_sent(now, burst, p);
        }
        bytes += burst;
        longest = burst.max(longest);
        if let Some(until) = limiter.paused_until() {
            assert!(until > now, "a pause takes time");
            pauses += 1;
            now = until;
            limiter.wake(now, p);
        }
    }
    (bytes, longest, pauses)
}

#[test]
fn the_rate_is_kept_and_bursts_are_short() {
    for mbps in [40, 100, 1000, 10_000, 39_000] {
        let p = steady(mbps);
        let (bytes, longest, pauses) = send(&p, Duration::from_millis(100));
        let expected = u64::from(mbps) * 12_500;
        let slack = expected / 50 + 2 * PACKET as u64;
        assert!(bytes.abs_diff(expected) <= slack, "{mbps}: {bytes}");
        assert!(longest <= 65536, "{mbps}: {longest}");
        // No more than one every 10 us.
        assert!(pauses <= 10_100, "{mbps}: {pauses}");
    }
}

/// A sender that has paused for long may not make up for it.
#[test]
fn a_long_rest_earns_one_burst() {
    let p = steady(1000);
    let mut limiter = limited(Instant::ZERO, &p);
    let later = Instant::from_nanos(1_000_000_000);
    assert_eq!(limiter.allowed(later, PACKET, &p), 65536 / PACKET);
}

/// A pause considers that the rate rises meanwhile: a slow sender does not wake up for each of its
/// increases.
#[test]
fn a_pause_ends_when_the_rate_has_allowed_enough() {
    let p = CongestionControl::Dcqcn(DcqcnParameters {
        rate_to_set_on_first_cnp: 1,
        ..DcqcnParameters::CONNECT_X
    });
    let mut limiter = limited(Instant::ZERO, &p);
    limiter.on_sent(Instant::ZERO, PACKET as u64, &p);
    let until = limiter.paused_until().expect("no credit");
    let flat = Duration::from_nanos(PACKET as u64 * 8000);
    assert!(until < Instant::ZERO + flat / 4, "{until:?}");
    assert!(
        until > Instant::ZERO + Duration::from_micros(600),
        "{until:?}"
    );
    limiter.wake(Instant::from_nanos(until.as_nanos() - 1000), &p);
    assert!(limiter.paused_until().is_some(), "not yet");
    limiter.wake(until, &p);
    assert_eq!(limiter.paused_until(), None);
}

/// A cut takes effect at once: what was allowed before it has left, and later packets wait for the
/// new rate.
#[test]
fn a_cut_counts_from_its_time_on() {
    let p = CongestionControl::Dcqcn(DcqcnParameters {
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    });
    // 10 us at half of 40 Gbit/s.
    const BURST: usize = 25_000;
    let next_burst = |cut: bool| {
        let mut limiter = limited(Instant::ZERO, &p);
        limiter.on_sent(Instant::ZERO, BURST as u64, &p);
        let until = limiter.paused_until().expect("no credit");
        if cut {
            limiter.on_cnp(Instant::from_nanos(1), &p);
        }
        limiter.wake(until, &p);
        limiter.allowed(until, PACKET, &p)
    };
    // At half the rate, the credit that the pause earns only makes up for the previous burst.
    assert_eq!([false, true].map(next_burst), [BURST / PACKET, 1]);
}

/// An observer sees the effect of the algorithm's timers, and the sender is unchanged.
#[test]
fn to_look_at_a_sender_changes_nothing() {
    let p = CongestionControl::Dcqcn(DcqcnParameters::PAPER);
    let limiter = limited(Instant::ZERO, &p);
    let later = limiter.law_at(Instant::from_nanos(1_000_000), &p);
    let later = later.expect("congestion control limits it");
    assert!(later.rate(&p) > limiter.rate(&p));
    assert_eq!(limiter.rate(&p), Some(20e9));
}

/// A sender starts no faster than a neighbour that got a CNP, and no faster than configured;
/// without either it is not limited.
#[test]
fn the_start_is_no_faster_than_it_may_be() {
    let start = |start_rate, neighbour| {
        let p = CongestionControl::Dcqcn(DcqcnParameters {
            start_rate,
            ..DcqcnParameters::PAPER
        });
        let limiter = Limiter::at_start(Instant::ZERO, &p, PACKET, true, neighbour)?;
        let later = limiter.law_at(Instant::from_nanos(60_000), &p)?;
        limiter.rate(&p).zip(later.rate(&p))
    };
    assert_eq!(start(0, None), None);
    // It stays at a neighbour's rate at first, but leaves a configured rate at once.
    assert_eq!(start(0, Some(3e9)), Some((3e9, 3e9)));
    assert_eq!(start(2000, None), Some((2e9, 21e9)));
    assert_eq!(start(2000, Some(3e9)), Some((2e9, 21e9)));
    assert_eq!(start(4000, Some(3e9)), Some((3e9, 3e9)));
}

/// Full rate, reached again or at the start, is a limit as long as alpha indicates that the path
/// was congested: a fifth of a second, with the paper's parameters.
#[test]
fn full_rate_is_kept_until_alpha_has_gone() {
    let p = CongestionControl::Dcqcn(DcqcnParameters {
        rpg_max_rate: 1000,
        start_rate: 1000,
        ..DcqcnParameters::PAPER
    });
    let begun = Limiter::at_start(Instant::ZERO, &p, PACKET, true, None);
    for mut limiter in [limited(Instant::ZERO, &p), begun.expect("limited")] {
        for (ms, over) in [(20, false), (180, false), (220, true)] {
            let now = Instant::from_nanos(ms * 1_000_000);
            limiter.allowed(now, PACKET, &p);
            assert!(limiter.rate(&p) >= Some(999e6), "{ms} ms");
            assert_eq!(limiter.is_over(&p), over, "{ms} ms");
        }
    }
}

/// A window without a rate causes no pauses.
#[test]
fn a_window_alone_is_not_paced() {
    let p = CongestionControl::Delay(DelayParameters::DEFAULT);
    let start = |acked| Limiter::at_start(Instant::ZERO, &p, PACKET, acked, None);
    assert!(start(false).is_none(), "it measures no round trips");
    let mut limiter = start(true).expect("limited");
    assert_eq!(limiter.congestion_window(), Some(10));
    assert_eq!(limiter.allowed(Instant::ZERO, PACKET, &p), usize::MAX);
    limiter.on_sent(Instant::ZERO, 1 << 30, &p);
    assert_eq!(limiter.paused_until(), None);
}

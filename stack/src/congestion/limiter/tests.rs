use super::*;
use crate::congestion::DcqcnParameters;

/// A rate that stays as it is: timers that don't come, no bytes counted.
fn steady(mbps: u32) -> DcqcnParameters {
    DcqcnParameters {
        rate_to_set_on_first_cnp: mbps,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    }
}

const PACKET: usize = 4162;

/// Sends as much as it may for a while. Returns the bytes, the longest burst and how
/// often it had to be woken.
fn send(p: &DcqcnParameters, time: Duration) -> (u64, u64, u64) {
    let mut now = Instant::ZERO;
    let end = now + time;
    let mut limiter = Limiter::new(now, p);
    let (mut bytes, mut longest, mut pauses) = (0, 0, 0);
    while now < end {
        let packets = limiter.allowed(now, PACKET, p);
        let burst = (packets * PACKET) as u64;
        if packets > 0 {
            limiter.on_sent(now, burst, p);
        }
        bytes += burst;
        longest = burst.max(longest);
        if let Some(until) = limiter.waits() {
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
        // No more than one every 13 us: what 65,536 bytes take at 39 Gbit/s.
        assert!(pauses <= 8000, "{mbps}: {pauses}");
    }
}

/// Who has not sent for long may not make up for it.
#[test]
fn a_long_rest_earns_one_burst() {
    let p = steady(1000);
    let mut limiter = Limiter::new(Instant::ZERO, &p);
    let later = Instant::from_nanos(1_000_000_000);
    assert_eq!(limiter.allowed(later, PACKET, &p), 65536 / PACKET);
}

/// A pause at the lowest rate ends no later than the rate rises.
#[test]
fn a_pause_does_not_outlast_the_rate() {
    let p = DcqcnParameters {
        rate_to_set_on_first_cnp: 1,
        ..DcqcnParameters::CONNECT_X
    };
    let mut limiter = Limiter::new(Instant::ZERO, &p);
    limiter.on_sent(Instant::ZERO, PACKET as u64, &p);
    let until = limiter.waits().expect("no credit");
    assert_eq!(until, Instant::ZERO + p.rpg_time_reset);
    limiter.wake(until, &p);
    assert!(limiter.waits().is_some_and(|next| next > until));
}

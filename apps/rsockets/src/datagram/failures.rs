//! The local addresses at which a socket could make no QP.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time after which the next message may try again.
const PAUSE: Duration = Duration::from_secs(1);

/// The most addresses that are remembered.
const MAX: usize = 64;

/// The addresses, so that messages of strangers to one that no device has cost little: looking for
/// devices takes milliseconds.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(IpAddr, Instant)>);

impl Failures {
    /// Whether an address has failed a moment ago.
    pub(super) fn is_recent(&mut self, local: IpAddr, now: Instant) -> bool {
        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < PAUSE);
        self.0.len() >= MAX || self.0.iter().any(|(ip, _)| *ip == local)
    }

    pub(super) fn remember(&mut self, local: IpAddr, now: Instant) {
        self.0.push((local, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_failed_is_left_alone_for_a_moment() {
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (mut failures, now) = (Failures::default(), Instant::now());
        assert!(!failures.is_recent(one, now));
        failures.remember(one, now);
        assert!(failures.is_recent(one, now + PAUSE / 2));
        assert!(!failures.is_recent(other, now + PAUSE / 2));
        assert!(!failures.is_recent(one, now + PAUSE));
        for last in 0..MAX {
            failures.remember(IpAddr::from([10, 0, 1, last as u8]), now + PAUSE);
        }
        assert!(
            failures.is_recent(other, now + PAUSE),
            "none is tried any more"
        );
        assert!(!failures.is_recent(other, now + 2 * PAUSE));
    }
}

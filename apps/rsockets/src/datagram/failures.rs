//! The local addresses at which a socket could not create a QP.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long an address is not tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of remembered addresses.
const MAX: usize = 64;

/// Recent failures. They bound the cost of messages from strangers to an address that no device has:
/// listing devices takes milliseconds.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(IpAddr, Instant)>);

impl Failures {
    /// Whether an address has failed recently, or there are too many failures.
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

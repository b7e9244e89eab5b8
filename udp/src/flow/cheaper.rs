//! Which way of sending long datagrams costs less here: with the kernel's copy or without.
//!
//! A copy costs more than references to pages on some machines, and less on others: it depends on
//! how fast the kernel copies, and on how the processors of sender and receiver share their caches.
//! It also changes from minute to minute on a virtual machine. So the port measures: of every
//! [`PERIOD`] bursts, one goes the preferred way and one the other way, and both are timed.

use std::time::Duration;

/// How the kernel gets the bytes of a long datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Copy,
    Reference,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Copy => Self::Reference,
            Self::Reference => Self::Copy,
        }
    }
}

/// Two of this many bursts are timed.
const PERIOD: u32 = 32;

/// Until each way has this many samples, every burst is timed.
const FIRST_SAMPLES: u32 = 8;

/// What a way costs.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Smoothed, in picoseconds per byte.
    ps_per_byte: u64,
    samples: u32,
}

impl Cost {
    fn note(&mut self, bytes: usize, elapsed: Duration) {
        let ps = elapsed.as_nanos().saturating_mul(1000) / bytes.max(1) as u128;
        let sample = u64::try_from(ps).unwrap_or(u64::MAX);
        self.ps_per_byte = match self.samples {
            0 => sample,
            // This thread may have lost its processor meanwhile.
            _ => (self.ps_per_byte * 3 + sample.min(self.ps_per_byte.saturating_mul(2))) / 4,
        };
        self.samples = self.samples.saturating_add(1);
    }
}

/// Chooses the way for each burst.
#[derive(Debug)]
pub(crate) struct CheaperWay {
    preferred: Way,
    copy: Cost,
    reference: Cost,
    /// The number of bursts since the last that went the other way.
    bursts: u32,
}

impl CheaperWay {
    pub(crate) fn new() -> Self {
        Self {
            preferred: Way::Copy,
            copy: Cost::default(),
            reference: Cost::default(),
            bursts: 0,
        }
    }

    /// The way of the next burst, and whether it is to be timed.
    pub(crate) fn next(&mut self) -> (Way, bool) {
        let few = self.copy.samples.min(self.reference.samples) < FIRST_SAMPLES;
        let period = if few { 2 } else { PERIOD };
        self.bursts += 1;
        if self.bursts >= period {
            self.bursts = 0;
            return (self.preferred.other(), true);
        }
        (self.preferred, self.bursts == 1)
    }

    /// Notes what a burst cost.
    pub(crate) fn note(&mut self, way: Way, bytes: usize, elapsed: Duration) {
        self.cost_of(way).note(bytes, elapsed);
        let preferred = *self.cost_of(self.preferred);
        let other = *self.cost_of(self.preferred.other());
        let is_known = preferred.samples.min(other.samples) >= FIRST_SAMPLES;
        // A difference of a few percent is noise.
        if is_known && other.ps_per_byte.saturating_mul(33) < preferred.ps_per_byte * 32 {
            self.preferred = self.preferred.other();
        }
    }

    fn cost_of(&mut self, way: Way) -> &mut Cost {
        match way {
            Way::Copy => &mut self.copy,
            Way::Reference => &mut self.reference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends bursts of 64 KiB with these costs in nanoseconds. Returns the number that went by
    /// reference.
    fn send(ways: &mut CheaperWay, bursts: usize, copy_ns: u64, reference_ns: u64) -> usize {
        let mut by_reference = 0;
        for _ in 0..bursts {
            let (way, is_timed) = ways.next();
            by_reference += usize::from(way == Way::Reference);
            if is_timed {
                let ns = match way {
                    Way::Copy => copy_ns,
                    Way::Reference => reference_ns,
                };
                ways.note(way, 1 << 16, Duration::from_nanos(ns));
            }
        }
        by_reference
    }

    #[test]
    fn the_cheaper_way_is_found_and_followed_when_it_changes() {
        let mut ways = CheaperWay::new();
        // Until both are known, they take turns.
        assert_eq!(send(&mut ways, 16, 20_000, 10_000), 8);
        assert_eq!(send(&mut ways, 3200, 20_000, 10_000), 3100);
        let by_reference = send(&mut ways, 3200, 10_000, 20_000);
        assert!((100..400).contains(&by_reference), "{by_reference}");
        assert_eq!(send(&mut ways, 3200, 10_000, 20_000), 100);
    }

    #[test]
    fn a_lost_processor_and_noise_change_nothing() {
        let mut ways = CheaperWay::new();
        send(&mut ways, 100, 10_000, 14_000);
        ways.note(Way::Copy, 1 << 16, Duration::from_secs(1));
        assert_eq!(send(&mut ways, 3200, 10_000, 9_900), 100);
        ways.note(Way::Copy, 0, Duration::MAX);
        send(&mut ways, 3200, 10_000, 14_000);
        assert_eq!(send(&mut ways, 3200, 10_000, 14_000), 100);
    }
}

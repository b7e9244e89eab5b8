//! Chooses the cheaper method of sending long datagrams on this machine: with or without a copy by
//! the kernel.
//!
//! A copy costs more than references to pages on some machines, and less on others. The difference
//! depends on how fast the kernel copies, and on how the processors of sender and receiver share
//! caches. On a virtual machine, it also changes from minute to minute. So the port measures: of
//! every [`PERIOD`] bursts, it times one that uses the preferred method and one that uses the
//! other.

use std::time::Duration;

/// How the kernel gets the bytes of a long datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Copy,
    Reference,
}

impl Method {
    fn other(self) -> Self {
        match self {
            Self::Copy => Self::Reference,
            Self::Reference => Self::Copy,
        }
    }
}

/// Two of this many bursts are timed, one for each method.
const PERIOD: u32 = 32;

/// Until each method has this many samples, every burst is timed.
const FIRST_SAMPLES: u32 = 8;

/// The cost of a method.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Smoothed, in picoseconds per byte.
    ps_per_byte: u64,
    samples: u32,
}

impl Cost {
    fn add_sample(&mut self, bytes: usize, elapsed: Duration) {
        let ps = elapsed.as_nanos().saturating_mul(1000) / bytes.max(1) as u128;
        let sample = u64::try_from(ps).unwrap_or(u64::MAX);
        self.ps_per_byte = match self.samples {
            0 => sample,
            // Limit the sample: this thread may have lost its processor during the burst.
            _ => (self.ps_per_byte * 3 + sample.min(self.ps_per_byte.saturating_mul(2))) / 4,
        };
        self.samples = self.samples.saturating_add(1);
    }
}

/// Chooses the method for each burst.
#[derive(Debug)]
pub(crate) struct MethodChooser {
    preferred: Method,
    copy: Cost,
    reference: Cost,
    /// The number of bursts since the last that used the other method.
    bursts: u32,
}

impl MethodChooser {
    pub(crate) fn new() -> Self {
        Self {
            preferred: Method::Copy,
            copy: Cost::default(),
            reference: Cost::default(),
            bursts: 0,
        }
    }

    /// Returns the method for the next burst, and whether to time the burst.
    pub(crate) fn next(&mut self) -> (Method, bool) {
        let needs_samples = self.copy.samples.min(self.reference.samples) < FIRST_SAMPLES;
        let period = if needs_samples { 2 } else { PERIOD };
        self.bursts += 1;
        if self.bursts >= period {
            self.bursts = 0;
            return (self.preferred.other(), true);
        }
        (self.preferred, self.bursts == 1)
    }

    /// Records the duration of a burst of `bytes` bytes.
    pub(crate) fn add_sample(&mut self, method: Method, bytes: usize, elapsed: Duration) {
        self.cost_of(method).add_sample(bytes, elapsed);
        let preferred = *self.cost_of(self.preferred);
        let other = *self.cost_of(self.preferred.other());
        let is_known = preferred.samples.min(other.samples) >= FIRST_SAMPLES;
        // A difference of a few percent is noise.
        if is_known && other.ps_per_byte.saturating_mul(33) < preferred.ps_per_byte * 32 {
            self.preferred = self.preferred.other();
        }
    }

    fn cost_of(&mut self, method: Method) -> &mut Cost {
        match method {
            Method::Copy => &mut self.copy,
            Method::Reference => &mut self.reference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends bursts of 64 KiB that take these times, in nanoseconds. Returns the number that were
    /// sent by reference.
    fn send(chooser: &mut MethodChooser, bursts: usize, copy_ns: u64, reference_ns: u64) -> usize {
        let mut by_reference = 0;
        for _ in 0..bursts {
            let (method, is_timed) = chooser.next();
            by_reference += usize::from(method == Method::Reference);
            if is_timed {
                let ns = match method {
                    Method::Copy => copy_ns,
                    Method::Reference => reference_ns,
                };
                chooser.add_sample(method, 1 << 16, Duration::from_nanos(ns));
            }
        }
        by_reference
    }

    #[test]
    fn the_cheaper_method_is_preferred_also_after_it_changes() {
        let mut chooser = MethodChooser::new();
        // Until both costs are known, the methods alternate.
        assert_eq!(send(&mut chooser, 16, 20_000, 10_000), 8);
        assert_eq!(send(&mut chooser, 3200, 20_000, 10_000), 3100);
        let by_reference = send(&mut chooser, 3200, 10_000, 20_000);
        assert!((100..400).contains(&by_reference), "{by_reference}");
        assert_eq!(send(&mut chooser, 3200, 10_000, 20_000), 100);
    }

    #[test]
    fn outliers_and_noise_change_nothing() {
        let mut chooser = MethodChooser::new();
        send(&mut chooser, 100, 10_000, 14_000);
        chooser.add_sample(Method::Copy, 1 << 16, Duration::from_secs(1));
        assert_eq!(send(&mut chooser, 3200, 10_000, 9_900), 100);
        chooser.add_sample(Method::Copy, 0, Duration::MAX);
        send(&mut chooser, 3200, 10_000, 14_000);
        assert_eq!(send(&mut chooser, 3200, 10_000, 14_000), 100);
    }
}

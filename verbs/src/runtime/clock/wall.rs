//! The wall-clock times of completions.
//!
//! Completions are stamped with the machine's monotonic clock. The wall clock is ahead of it by an
//! offset that changes only when the wall clock is set. The two clocks can't be read at the same
//! moment, so each measurement of the offset has an error of up to some tens of nanoseconds. With a
//! new measurement for each completion, a later completion could have an earlier time. So the
//! process keeps a measurement until a later one shows that the clock was set.

use nix::errno::Errno;
use nix::time::ClockId;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The difference from the offset in use, in ns, that shows that the clock was set.
const TOLERANCE_NS: i64 = 1000;

/// The maximum number of measurements of which [`Measured::best`] chooses one.
const MOST_MEASUREMENTS: usize = 16;

/// The value of [`OFFSET`] before the first measurement.
const UNKNOWN: i64 = i64::MIN;

/// The offset in use, in ns. It is an atomic because a forked child could inherit a lock in the
/// locked state.
static OFFSET: AtomicI64 = AtomicI64::new(UNKNOWN);

/// The wall clock's time, in ns since 1970, when the monotonic clock was at `monotonic_ns`.
///
/// # Errors
/// If the machine lacks one of the clocks.
pub(crate) fn wall_clock_ns(monotonic_ns: u64) -> Result<u64, Errno> {
    let in_use = OFFSET.load(Ordering::Relaxed);
    let mut offset = in_use;
    if !Measured::now()?.is_consistent_with(in_use) {
        offset = Measured::best()?.middle();
        let stored = OFFSET.compare_exchange(in_use, offset, Ordering::Relaxed, Ordering::Relaxed);
        // If another thread stored an offset first, use that one.
        offset = stored.map_or_else(|other| other, |_| offset);
    }
    monotonic_ns
        .checked_add_signed(offset)
        .ok_or(Errno::EOVERFLOW)
}

/// Bounds of the offset, in ns.
#[derive(Clone, Copy)]
struct Measured {
    least: i64,
    most: i64,
}

impl Measured {
    fn now() -> Result<Self, Errno> {
        let before = read(ClockId::CLOCK_MONOTONIC)?;
        let wall = read(ClockId::CLOCK_REALTIME)?;
        let after = read(ClockId::CLOCK_MONOTONIC)?;
        Ok(Self {
            least: wall - after,
            most: wall - before,
        })
    }

    /// The most precise of several measurements. A single one may be far off, if the thread is
    /// preempted between its readings.
    fn best() -> Result<Self, Errno> {
        let mut best = Self::now()?;
        for _ in 1..MOST_MEASUREMENTS {
            if best.width() <= TOLERANCE_NS {
                break;
            }
            let next = Self::now()?;
            if next.width() < best.width() {
                best = next;
            }
        }
        Ok(best)
    }

    fn width(self) -> i64 {
        self.most - self.least
    }

    fn middle(self) -> i64 {
        i64::midpoint(self.least, self.most)
    }

    /// Whether this measurement is consistent with an earlier offset, so that the clock was not
    /// set.
    fn is_consistent_with(self, offset: i64) -> bool {
        (self.least - TOLERANCE_NS..=self.most + TOLERANCE_NS).contains(&offset)
    }
}

fn read(clock: ClockId) -> Result<i64, Errno> {
    let now = Duration::from(clock.now()?);
    i64::try_from(now.as_nanos()).map_err(|_| Errno::EOVERFLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measurement of an offset of about `offset`, by readings that took `took` ns.
    fn measured(offset: i64, took: i64) -> Measured {
        Measured {
            least: offset - took / 2,
            most: offset + took / 2,
        }
    }

    /// Measurements differ by tens of nanoseconds, or by more if the thread was preempted
    /// between two readings.
    #[test]
    fn inexact_measurements_do_not_contradict_the_offset() {
        for (offset, took) in [(999_975, 40), (1_000_030, 60), (1_400_000, 900_000)] {
            assert!(measured(offset, took).is_consistent_with(1_000_000));
        }
    }

    #[test]
    fn a_clock_that_was_set_contradicts_the_offset() {
        for set in [-2_000_000_000, -2000, 2000, 2_000_000_000] {
            let now = measured(1_000_000 + set, 50);
            assert!(!now.is_consistent_with(1_000_000));
            assert_eq!(now.middle(), 1_000_000 + set);
        }
        assert!(!measured(1_000_000, 50).is_consistent_with(UNKNOWN));
    }

    #[test]
    fn the_same_moment_has_one_time() {
        let first = wall_clock_ns(1_000_000_000).expect("a clock");
        assert!((0..1000).all(|_| wall_clock_ns(1_000_000_000) == Ok(first)));
    }
}

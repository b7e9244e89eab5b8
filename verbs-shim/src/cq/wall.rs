//! The wall clock, for the times of completions.
//!
//! A completion is stamped by the machine's monotonic clock. The wall clock is ahead of that
//! by an offset which changes only when somebody sets the wall clock. Two readings can't be
//! taken at the same moment, so each measurement of the offset is off by up to some tens of
//! nanoseconds. With a new measurement for each completion, times would step back. So the
//! process keeps a measurement until a later one shows that the clock was set.

use nix::errno::Errno;
use nix::time::ClockId;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How much a measurement must contradict the offset in use to show that the clock was set.
const TOLERANCE_NS: i64 = 1000;

/// How often the offset is measured before it is used, at most.
const MOST_MEASUREMENTS: usize = 16;

/// No offset is in use yet.
const UNKNOWN: i64 = i64::MIN;

/// The offset in use, in ns. Not behind a lock, which a forked child could inherit held.
static OFFSET: AtomicI64 = AtomicI64::new(UNKNOWN);

/// The wall clock's time, in ns since 1970, when the monotonic clock was at `monotonic_ns`.
///
/// # Errors
/// If the machine lacks one of the clocks.
pub(super) fn at(monotonic_ns: u64) -> Result<u64, Errno> {
    let in_use = OFFSET.load(Ordering::Relaxed);
    let mut offset = in_use;
    if !Measured::now()?.allows(in_use) {
        offset = Measured::best()?.middle();
        let stored = OFFSET.compare_exchange(in_use, offset, Ordering::Relaxed, Ordering::Relaxed);
        // Another thread may have been first.
        offset = stored.map_or_else(|other| other, |_| offset);
    }
    monotonic_ns
        .checked_add_signed(offset)
        .ok_or(Errno::EOVERFLOW)
}

/// The offset lies between these two, in ns.
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

    /// The most exact of some measurements. A single one may be far off, if the thread is
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

    /// Whether the clock need not have been set since this offset was measured.
    fn allows(self, offset: i64) -> bool {
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
            assert!(measured(offset, took).allows(1_000_000));
        }
    }

    #[test]
    fn a_clock_that_was_set_contradicts_the_offset() {
        for set in [-2_000_000_000, -2000, 2000, 2_000_000_000] {
            let now = measured(1_000_000 + set, 50);
            assert!(!now.allows(1_000_000));
            assert_eq!(now.middle(), 1_000_000 + set);
        }
        assert!(!measured(1_000_000, 50).allows(UNKNOWN));
    }

    #[test]
    fn the_same_moment_has_one_time() {
        let first = at(1_000_000_000).expect("a clock");
        assert!((0..1000).all(|_| at(1_000_000_000) == Ok(first)));
    }
}

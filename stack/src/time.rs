//! Time as the stack sees it: nanoseconds since an origin that the caller chose.

use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A point in time, in nanoseconds since an origin of the caller's choice.
///
/// The stack never reads a clock: the code that drives it passes `Instant`s in, from a monotonic
/// clock or from a simulation's virtual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// The instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this instant; 0 if this is not after `earlier`.
    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `ns` nanoseconds later.
    #[inline]
    pub(crate) const fn after_nanos(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The duration from `earlier` to this instant; zero if this is not after `earlier`.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

/// A duration in nanoseconds, for calculations on the path of each packet: a [`Duration`] keeps
/// seconds and nanoseconds apart, which makes its arithmetic slower.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}

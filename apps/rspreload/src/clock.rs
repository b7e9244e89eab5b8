//! Deadlines of blocking calls.

use crate::errno::{Errno, Outcome};
use libc::{timespec, timeval};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// A deadline, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    pub(crate) const NEVER: Self = Self(None);

    pub(crate) fn after(limit: Duration) -> Self {
        // A deadline that cannot be represented never passes.
        Self(Instant::now().checked_add(limit))
    }

    pub(crate) fn at(time: Instant) -> Self {
        Self(Some(time))
    }

    /// After `limit`; never without one.
    pub(crate) fn after_limit(limit: Option<Duration>) -> Self {
        limit.map_or(Self::NEVER, Self::after)
    }

    /// From the timeout of `poll`; negative for never.
    pub(crate) fn from_milliseconds(timeout: c_int) -> Self {
        match u64::try_from(timeout) {
            Ok(timeout) => Self::after(Duration::from_millis(timeout)),
            Err(_) => Self::NEVER,
        }
    }

    /// From the timeout of `ppoll` or `pselect`; NULL for never.
    ///
    /// # Safety
    /// The time can be read.
    pub(crate) unsafe fn from_timespec(timeout: *const timespec) -> Outcome<Self> {
        if timeout.is_null() {
            return Ok(Self::NEVER);
        }
        // SAFETY: the caller promises it.
        let timeout = unsafe { timeout.read() };
        duration(timeout.tv_sec, timeout.tv_nsec).map(Self::after)
    }

    /// From the timeout of `select`; NULL for never.
    ///
    /// # Safety
    /// The time can be read.
    pub(crate) unsafe fn from_timeval(timeout: *const timeval) -> Outcome<Self> {
        if timeout.is_null() {
            return Ok(Self::NEVER);
        }
        // SAFETY: the caller promises it.
        let timeout = unsafe { timeout.read() };
        let nanoseconds = timeout.tv_usec.checked_mul(1000);
        let nanoseconds = nanoseconds.ok_or(Errno(libc::EINVAL))?;
        duration(timeout.tv_sec, nanoseconds).map(Self::after)
    }

    /// The earlier of both.
    pub(crate) fn min(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (a, b) => Self(a.or(b)),
        }
    }

    pub(crate) fn is_never(self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    pub(crate) fn left(self) -> Option<Duration> {
        let end = self.0?;
        Some(end.saturating_duration_since(Instant::now()))
    }

    /// The remaining time for `poll`, rounded up so that the wait is not too short.
    pub(crate) fn left_milliseconds(self) -> c_int {
        match self.left() {
            None => -1,
            Some(left) => {
                let rounded = left.as_nanos().div_ceil(1_000_000);
                c_int::try_from(rounded).unwrap_or(c_int::MAX)
            }
        }
    }
}

fn duration(seconds: i64, nanoseconds: i64) -> Outcome<Duration> {
    let invalid = |_| Errno(libc::EINVAL);
    let seconds = u64::try_from(seconds).map_err(invalid)?;
    let nanoseconds = u64::try_from(nanoseconds).map_err(invalid)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanoseconds)))
}

//! A descriptor that is readable while its owner says so: [ADR 58](../../../docs/adr/0058-descriptors-of-events.md).

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timer::TimerSetTimeFlags;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// A descriptor that behaves as those of the kernel's RDMA events: it is readable or not, and never
/// writable, and each [`Readiness::set`] is a new edge for those that wait for edges. A blocking
/// `read` of 8 bytes waits until it is readable, and makes it unreadable.
///
/// It is a timerfd whose timer never runs. An eventfd is always writable, and a pipe takes two
/// descriptors.
pub(super) struct Readiness(TimerFd);

impl Readiness {
    /// A descriptor that is not readable, and non-blocking.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Makes it readable, and wakes up those that wait for it, even if it is readable already.
    pub(super) fn set(&self) {
        if ioctl::set_ticks(self.0.as_fd().as_raw_fd()).is_err() {
            // A kernel without CONFIG_CHECKPOINT_RESTORE.
            self.expire();
        }
    }

    /// Whether it is readable. It makes no edge, and wakes up nobody.
    pub(super) fn is_set(&self) -> bool {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Does the same as [`Readiness::set`] by a timer that expired long ago. It becomes readable soon, but not always
    /// before this returns.
    fn expire(&self) {
        let past = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(1)));
        // The time is valid, so this does not fail.
        let _ = self.0.set(past, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }

    /// Makes it unreadable. Unlike a `read`, this never blocks.
    pub(super) fn clear(&self) {
        // Stopping the timer also discards its expirations. It fails for no timerfd.
        let _ = self.0.unset();
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The system call that sets a timerfd's number of expirations.
#[expect(unsafe_code)]
mod ioctl {
    use std::os::fd::RawFd;

    nix::ioctl_write_ptr! {
        /// `TFD_IOC_SET_TICKS`.
        tfd_ioc_set_ticks, b'T', 0, u64
    }

    pub(super) fn set_ticks(timerfd: RawFd) -> nix::Result<()> {
        let ticks = 1;
        // SAFETY: the kernel reads 8 bytes at the pointer.
        unsafe { tfd_ioc_set_ticks(timerfd, &raw const ticks) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_timer_does_as_well() {
        let readiness = Readiness::new().expect("a descriptor");
        let readable = |timeout| {
            let mut fds = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, timeout).expect("polled") > 0
        };
        for set in [Readiness::expire, Readiness::set] {
            assert!(!readable(PollTimeout::ZERO));
            set(&readiness);
            assert!(readable(PollTimeout::NONE));
            readiness.clear();
        }
        assert!(!readable(PollTimeout::ZERO));
    }
}

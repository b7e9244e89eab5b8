//! Sleeping until something happens to a socket.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until this time, or for ever.
    Until(Option<Instant>),
}

impl Patience {
    /// For a call that waits at most `limit`, if there is a limit.
    pub(crate) fn of(limit: Option<Duration>) -> Self {
        Self::Until(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// The time that is left; `None` means for ever.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Self::None => Some(Duration::ZERO),
            Self::Until(None) => None,
            Self::Until(Some(end)) => Some(end.saturating_duration_since(Instant::now())),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Whether the call waits for ever.
    pub(crate) fn is_endless(self) -> bool {
        self == Self::Until(None)
    }

    /// The patience that ends at `at`, if that is earlier.
    pub(crate) fn or_at(self, at: Option<Instant>) -> Self {
        match (self, at) {
            (Self::Until(None), Some(at)) => Self::Until(Some(at)),
            (Self::Until(Some(end)), Some(at)) => Self::Until(Some(end.min(at))),
            _ => self,
        }
    }
}

/// Whether a call that a signal interrupted goes on: the program asked for that with each handler
/// that it installed (SA_RESTART). Which signal it was is not known.
pub(crate) fn restarts() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: there is room for the action. Zeros are a valid one.
        let action = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !is_handled || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// A time as `poll` takes it, rounded up.
pub(crate) fn poll_timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    let millis = left.as_nanos().div_ceil(1_000_000);
    let millis = i32::try_from(millis).unwrap_or(i32::MAX);
    PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
}

/// Waits until one of the descriptors is readable.
///
/// # Errors
/// EINTR if a signal was handled.
pub(crate) fn sleep(descriptors: &[RawFd], left: Option<Duration>) -> Result<(), Errno> {
    let mut fds: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|fd| {
            // SAFETY: the caller's socket owns them, and is kept alive by the caller.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            PollFd::new(fd, PollFlags::POLLIN)
        })
        .collect();
    nix::poll::poll(&mut fds, poll_timeout(left)).map(drop)
}

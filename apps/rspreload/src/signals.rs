//! `SIGPIPE`, interrupted calls, and waits with a signal mask.

use crate::clock::Until;
use crate::errno::{Errno, Outcome};
use crate::hidden;
use libc::{c_void, sigset_t, timespec};
use roce_trust::signals::restarts_calls;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Sends `SIGPIPE` to this thread, as the kernel does on a write to a socket that was shut down.
pub(crate) fn raise_sigpipe() {
    // SAFETY: the thread is this one.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
}

/// Whether an interrupted call restarts instead of failing with `EINTR`.
pub(crate) fn should_restart(limit: Until) -> bool {
    limit.is_never() && restarts_calls()
}

/// Blocks all signals for this thread until dropped.
pub(crate) struct Blocked(sigset_t);

impl Blocked {
    pub(crate) fn all() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both have room for a set, and are set.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

/// The signal mask of a `ppoll`. `rpoll` takes no mask, so signals that this one would unblock stay
/// blocked, and a signalfd in the poll set reports them.
pub(crate) struct Mask {
    before: sigset_t,
    during: sigset_t,
    signalfd: Option<c_int>,
}

impl Mask {
    /// Reads the mask; `None` if it is NULL.
    ///
    /// # Safety
    /// The mask can be read.
    pub(crate) unsafe fn new(mask: *const sigset_t) -> Outcome<Option<Self>> {
        if mask.is_null() {
            return Ok(None);
        }
        let mut before = MaybeUninit::uninit();
        // SAFETY: the caller promises the mask, and there is room for the other one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, mask, before.as_mut_ptr());
            let before = before.assume_init();
            let mut new = Self {
                before,
                during: mask.read(),
                signalfd: None,
            };
            if let Some(unblocked) = unblocked(&before, &new.during) {
                let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
                let signalfd = libc::signalfd(-1, &raw const unblocked, flags);
                if signalfd < 0 {
                    return Err(Errno::last());
                }
                new.signalfd = Some(hidden::hide(signalfd));
            }
            Ok(Some(new))
        }
    }

    /// A descriptor that is readable while a signal is pending.
    pub(crate) fn fd(&self) -> Option<c_int> {
        self.signalfd
    }

    /// Runs the handlers of pending signals. Fails with `EINTR` if there was one.
    pub(crate) fn deliver(&self) -> Outcome<()> {
        let now = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: no descriptors are passed; the time and the mask can be read. A direct system call,
        // because this library replaces the C library's `ppoll`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                std::ptr::null::<c_void>(),
                0,
                &raw const now,
                &raw const self.during,
                libc::SIGRTMAX() as usize / 8,
            )
        };
        if result < 0 {
            Err(Errno::last())
        } else {
            Ok(())
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        if let Some(fd) = self.signalfd {
            hidden::close(fd);
        }
        // SAFETY: the set is one.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}

/// The signals that `before` blocks and `during` does not.
fn unblocked(before: &sigset_t, during: &sigset_t) -> Option<sigset_t> {
    let mut set = MaybeUninit::uninit();
    let mut is_empty = true;
    // SAFETY: all three are sets.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in 1..=libc::SIGRTMAX() {
            if libc::sigismember(before, signal) == 1 && libc::sigismember(during, signal) == 0 {
                libc::sigaddset(set.as_mut_ptr(), signal);
                is_empty = false;
            }
        }
        (!is_empty).then(|| set.assume_init())
    }
}

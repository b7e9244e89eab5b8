//! The handlers of signals that the program of this process has installed, and threads that take none of
//! the program's signals.
//!
//! The kernel restarts a call that a signal interrupts if the signal's handler was installed with
//! `SA_RESTART`, and lets it fail with `EINTR` otherwise. A library whose call is made of several calls of
//! the kernel has to do the same, but nothing says which handler ran.

use libc::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// Signals of faults, which interrupt no call. Runtimes and libraries have handlers for them.
const FAULTS: [c_int; 7] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// What the handlers of those signals that the calling thread does not block ask of a call that they
/// interrupt. Those of faults do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// One of them has `SA_RESTART`: the call goes on.
    pub restart: bool,
    /// One of them lacks it: the call fails.
    pub interrupt: bool,
}

impl Handlers {
    /// Those of the calling thread. This takes 60 system calls.
    pub fn of_this_thread() -> Self {
        let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: no mask is set, and there is room for the old one. Zeros are a valid one.
        let blocked = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr());
            blocked.assume_init()
        };
        let mut found = Self::default();
        let others = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
        for signal in others {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: there is room for the action. Zeros are a valid one.
            let action = unsafe {
                libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
                action.assume_init()
            };
            let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
            // SAFETY: the set is valid.
            if is_handled && unsafe { libc::sigismember(&raw const blocked, signal) } == 0 {
                let restarts = action.sa_flags & libc::SA_RESTART != 0;
                found.restart |= restarts;
                found.interrupt |= !restarts;
            }
        }
        found
    }

    /// Whether all of them ask for the same.
    pub fn agree(self) -> bool {
        !(self.restart && self.interrupt)
    }
}

/// Whether a call of this thread goes on after a signal: no handler asks that it fails. The kernel restarts
/// no call that has a time limit (`SO_RCVTIMEO`, `SO_SNDTIMEO`), so the caller does not ask for those.
pub fn restarts_calls() -> bool {
    !Handlers::of_this_thread().interrupt
}

/// Starts a thread that blocks all signals, except those of faults. A fault is the thread's own: if
/// it blocks the signal, the kernel ends the process without calling a handler.
///
/// # Errors
/// If the system has no thread left.
pub fn spawn(thread: Builder, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let own = [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE];
    let (mut blocked, mut before) = (
        MaybeUninit::<libc::sigset_t>::zeroed(),
        MaybeUninit::<libc::sigset_t>::zeroed(),
    );
    // Threads inherit the signal mask.
    // SAFETY: both sets are there, and only this thread's mask changes.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for fault in own {
            libc::sigdelset(blocked.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
    }
    let started = thread.spawn(run);
    // SAFETY: the set is the one from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing(_: c_int) {}

    fn handle(signal: c_int, flags: c_int, handler: libc::sighandler_t) {
        // SAFETY: zeros are a valid action, and the handler does nothing.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            assert_eq!(
                libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
                0
            );
        }
    }

    fn block(how: c_int, signal: c_int) {
        // SAFETY: the set is initialised, and only this thread's mask changes.
        unsafe {
            let mut set = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
        }
    }

    #[test]
    fn handlers_agree_unless_one_restarts_calls_and_another_interrupts_them() {
        let own = nothing as extern "C" fn(c_int) as libc::sighandler_t;
        let (one, other) = (libc::SIGURG, libc::SIGWINCH);
        let found = || {
            let Handlers { restart, interrupt } = Handlers::of_this_thread();
            (restart, interrupt)
        };
        assert_eq!(found(), (false, false));
        handle(one, libc::SA_RESTART, own);
        assert_eq!(found(), (true, false));
        assert!(restarts_calls());
        handle(other, 0, own);
        assert_eq!(found(), (true, true));
        assert!(!restarts_calls() && !Handlers::of_this_thread().agree());
        // This thread does not take it.
        block(libc::SIG_BLOCK, other);
        assert_eq!(found(), (true, false));
        assert!(restarts_calls());
        block(libc::SIG_UNBLOCK, other);
        handle(one, 0, libc::SIG_IGN);
        handle(libc::SIGSEGV, libc::SA_RESTART, own);
        assert_eq!(found(), (false, true));
        assert!(!restarts_calls() && Handlers::of_this_thread().agree());
        for signal in [one, other, libc::SIGSEGV] {
            handle(signal, 0, libc::SIG_DFL);
        }
    }
}

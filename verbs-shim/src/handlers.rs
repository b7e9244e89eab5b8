//! The program's signal handlers, and what they ask of a call that waits.
//!
//! The kernel restarts a `read` after a signal whose handler has `SA_RESTART`, and lets it fail with
//! `EINTR` after another. It never restarts `ppoll`, and nothing says which handler ran. So a thread
//! waits in `ppoll` only while all handlers ask for the same.

use nix::errno::Errno;
use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null;
use std::time::{Duration, Instant};

/// Signals of faults, which interrupt no wait. Runtimes and libraries have handlers for them.
const FAULTS: [c_int; 7] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// The time for which a thread relies on what it has found. To look takes 60 system calls, and a message of
/// a program that waits for each takes 50 us.
const HOLDS: Duration = Duration::from_millis(10);

thread_local! {
    /// What this thread has found, and when.
    static FOUND: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
}

/// What the handlers of the signals that the calling thread takes ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Handlers {
    /// One of them has `SA_RESTART`.
    restarts: bool,
    /// One of them has it not.
    interrupts: bool,
}

impl Handlers {
    fn look() -> Self {
        let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: no mask is set, and there is room for the old one. Zeros are a valid one.
        let blocked = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, null(), blocked.as_mut_ptr());
            blocked.assume_init()
        };
        let mut found = Self::default();
        let others = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
        for signal in others {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: there is room for the action. Zeros are a valid one.
            let action = unsafe {
                libc::sigaction(signal, null(), action.as_mut_ptr());
                action.assume_init()
            };
            let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
            // SAFETY: the set is valid.
            if is_handled && unsafe { libc::sigismember(&raw const blocked, signal) } == 0 {
                let restarts = action.sa_flags & libc::SA_RESTART != 0;
                found.restarts |= restarts;
                found.interrupts |= !restarts;
            }
        }
        found
    }

    /// Whether it follows from them what a call does after a signal.
    fn agree(self) -> bool {
        !(self.restarts && self.interrupts)
    }
}

/// Whether all handlers ask for the same, as of the last 10 ms.
pub(crate) fn agree_on_restart() -> bool {
    let now = Instant::now();
    match FOUND.get() {
        Some((at, agree)) if now.duration_since(at) < HOLDS => agree,
        _ => {
            let agree = Handlers::look().agree();
            FOUND.set(Some((now, agree)));
            agree
        }
    }
}

/// Whether a call that a signal has interrupted goes on. If a handler was installed just now, so that
/// they disagree, it fails: a program whose handler asks for that may rely on it. Leaves `errno` as it
/// was.
pub(crate) fn restart() -> bool {
    let errno = Errno::last();
    let handlers = Handlers::look();
    FOUND.set(Some((Instant::now(), handlers.agree())));
    errno.set();
    !handlers.interrupts
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
        let asks = |restarts, interrupts| Handlers {
            restarts,
            interrupts,
        };
        assert_eq!(Handlers::look(), asks(false, false));
        handle(one, libc::SA_RESTART, own);
        assert_eq!(Handlers::look(), asks(true, false));
        assert!(restart());
        handle(other, 0, own);
        assert_eq!(Handlers::look(), asks(true, true));
        assert!(!restart() && !agree_on_restart());
        block(libc::SIG_BLOCK, one);
        assert_eq!(Handlers::look(), asks(false, true));
        block(libc::SIG_UNBLOCK, one);
        handle(one, 0, libc::SIG_IGN);
        handle(libc::SIGSEGV, libc::SA_RESTART, own);
        assert_eq!(Handlers::look(), asks(false, true));
        assert!(!restart() && agree_on_restart());
        for signal in [one, other, libc::SIGSEGV] {
            handle(signal, 0, libc::SIG_DFL);
        }
    }
}

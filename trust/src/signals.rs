//! The handlers of signals that the program of this process has installed.

use libc::c_int;
use std::mem::MaybeUninit;

/// Signals of faults, which interrupt no call. Runtimes and libraries have handlers for them.
const FAULTS: [c_int; 4] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE];

/// Whether the program asked, with each handler that it installed, that a call goes on after a signal
/// (`SA_RESTART`). Which signal has interrupted a call is not known. The kernel restarts no call that has a
/// time limit (`SO_RCVTIMEO`, `SO_SNDTIMEO`), so the caller does not ask for those.
pub fn restarts_calls() -> bool {
    let mut others = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
    others.all(|signal| {
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

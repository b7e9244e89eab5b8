//! Whether an interrupted call goes on. `librspreload` has this file, too.

use libc::c_int;
use std::mem::MaybeUninit;

/// Signals of faults, which interrupt no call. Runtimes and libraries have handlers for them.
const FAULTS: [c_int; 4] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE];

/// Whether a call without a time limit goes on after a signal: the program asked for that with each
/// handler that it installed (`SA_RESTART`). Which signal it was is not known. The kernel restarts no
/// call that has a limit (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
pub(crate) fn restarts() -> bool {
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

//! The handlers of the signals that failed accesses raise.

use super::access::{Current, Guarded, PAGE};
use core::sync::atomic::{AtomicBool, Ordering};
use nix::errno::Errno;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// The handler that the program had before.
struct Before {
    action: OnceLock<libc::sigaction>,
    /// Whether a handler with `SA_RESETHAND` has run: from then on, the default action counts.
    is_reset: AtomicBool,
}

impl Before {
    const fn new() -> Self {
        Self {
            action: OnceLock::new(),
            is_reset: AtomicBool::new(false),
        }
    }

    /// The handler for the next signal, with its flags.
    fn next(&self) -> Option<(libc::sighandler_t, c_int)> {
        let action = self.action.get()?;
        let is_handler = has_handler(action);
        let resets = is_handler && action.sa_flags & libc::SA_RESETHAND != 0;
        if resets && self.is_reset.swap(true, Ordering::Relaxed) {
            return Some((libc::SIG_DFL, 0));
        }
        Some((action.sa_sigaction, action.sa_flags))
    }
}

static BEFORE: [Before; 2] = [const { Before::new() }; 2];

fn has_handler(action: &libc::sigaction) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
}

/// The flags of this library's handler, which runs as the program's own one would: the kernel
/// blocks the same signals meanwhile, and takes the alternate stack only if that one asked for it.
fn own_flags(before: &libc::sigaction) -> c_int {
    let kept = libc::SA_NODEFER | libc::SA_RESTART | libc::SA_ONSTACK;
    libc::SA_SIGINFO
        | match has_handler(before) {
            true => before.sa_flags & kept,
            false => libc::SA_ONSTACK,
        }
}

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

static CURRENT: OnceLock<Result<Current, Errno>> = OnceLock::new();

pub(super) fn install() -> Result<Current, Errno> {
    static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
    let current = (*CURRENT.get_or_init(Current::new))?;
    let installed = INSTALLED.get_or_init(|| {
        let mut all = SIGNALS.iter().zip(&BEFORE);
        all.try_for_each(|(signal, before)| install_for(*signal, &before.action))
    });
    installed.map(|()| current)
}

fn install_for(signal: c_int, known: &OnceLock<libc::sigaction>) -> Result<(), Errno> {
    let action = |new: *const libc::sigaction| {
        let mut old = MaybeUninit::uninit();
        // SAFETY: `new` is null or valid, `old` is writable.
        let done = unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) };
        // SAFETY: the call has filled it, unless it failed.
        Errno::result(done).map(|_| unsafe { old.assume_init() })
    };
    // The handler may run as soon as it is installed.
    let before = action(ptr::null())?;
    let _ = known.set(before);
    // SAFETY: all zeros is a valid value.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
    new.sa_sigaction = handler as usize;
    new.sa_flags = own_flags(&before);
    new.sa_mask = before.sa_mask;
    action(&raw const new).map(drop)
}

/// The access that the thread is making, if it reaches into the page at `addr`.
fn failed_access(addr: usize) -> Option<usize> {
    let current = CURRENT.get()?.ok()?;
    // SAFETY: it is null, or what `guard` is waiting with.
    let Guarded { stack, pages } = unsafe { current.get().as_ref() }?;
    let hit = (pages.0..=pages.1).contains(&(addr / PAGE));
    (hit && *stack != 0).then_some(*stack)
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes what it knows of the signal.
    let (code, addr) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A signal that a process has sent has no address.
    let stack = (code > 0).then(|| failed_access(addr)).flatten();
    if let Some(stack) = stack {
        // SAFETY: the kernel passes the context of the interrupted thread.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        // SAFETY: `call_guarded` has called the access, and that call's return address is there.
        let after_call = unsafe { (stack as *const i64).sub(1).read() };
        registers[libc::REG_RSP as usize] = stack as i64;
        registers[libc::REG_RIP as usize] = after_call;
        // The result of the access.
        registers[libc::REG_RAX as usize] = 1;
        return;
    }
    pass_on(signal, code, info, context);
}

/// Calls the program's own handler. Without one, the signal ends the process, as usual.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let known = SIGNALS.iter().position(|one| *one == signal);
    let Some((handler, flags)) = known.and_then(|at| BEFORE[at].next()) else {
        return;
    };
    match handler {
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeros is the default action, and the calls may be made in a handler.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                // A failed instruction is executed again, and raises the signal again.
                if code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: with this flag, the program's handler is such a function.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag, the program's handler is such a function.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(handler: usize, flags: c_int) -> libc::sigaction {
        // SAFETY: all zeros is a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        action
    }

    #[test]
    fn the_handler_runs_as_the_programs_own_one_would() {
        let own = |handler, flags| own_flags(&action(handler, flags)) & !libc::SA_SIGINFO;
        for none in [libc::SIG_DFL, libc::SIG_IGN] {
            assert_eq!(own(none, libc::SA_RESTART), libc::SA_ONSTACK);
        }
        let kept = libc::SA_NODEFER | libc::SA_RESTART;
        for flags in [0, libc::SA_ONSTACK, libc::SA_ONSTACK | kept, kept] {
            assert_eq!(own(4096, flags), flags);
            assert_eq!(own(4096, flags | libc::SA_RESETHAND), flags);
        }
    }

    #[test]
    fn a_handler_that_resets_itself_runs_once() {
        for (flags, later) in [
            (libc::SA_RESETHAND, (libc::SIG_DFL, 0)),
            (libc::SA_SIGINFO, (4096, libc::SA_SIGINFO)),
        ] {
            let before = Before::new();
            assert_eq!(before.next(), None);
            assert!(before.action.set(action(4096, flags)).is_ok());
            let all = [(); 3].map(|()| before.next());
            assert_eq!(all, [Some((4096, flags)), Some(later), Some(later)]);
        }
    }
}

//! Prints the message of `roce run` that no device was opened, when the program exits.
//!
//! `roce run` replaces itself with the program (`exec`), so the program itself must print it.
//! `roce run` preloads this library, so this code also runs in programs that do not use RDMA.

use roce_verbs::observation::totals_of_this_program;
use std::ffi::{c_int, c_void};
use std::io::Write as _;

unsafe extern "C" {
    /// As glibc declares it; the crate libc does not have it.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Runs when the library is loaded.
extern "C" fn at_start() {
    // Only the process that prints the message needs to know its end.
    if std::panic::catch_unwind(totals_of_this_program).is_ok_and(|totals| totals.is_some()) {
        // SAFETY: this library stays mapped until the process has ended, and the function ignores its
        // second argument.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
}

#[used]
// SAFETY: the section holds pointers to functions that may be called without arguments.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

/// Runs when the process ends by `exit` or by returning from `main`, after all other exit handlers.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    // A panic must not unwind into C, and at exit there is nowhere to report it.
    let _ = std::panic::catch_unwind(|| print_exit_message(status == 0));
}

fn print_exit_message(has_succeeded: bool) {
    let totals = totals_of_this_program();
    let Some(totals) = totals.filter(|totals| totals.misses_device(has_succeeded)) else {
        return;
    };
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let line = format!("roce run: {}\n", totals.no_device_opened(name.trim(), None));
    // At exit, there is nowhere to report an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

//! Prints the message of `roce run` that no device was opened, when the program exits.
//!
//! `roce run` replaces itself with the program (`exec`), so the program itself must print it.
//! `roce run` preloads this library, so this code also runs in programs that do not use RDMA.

use roce_verbs::observation::totals_of_this_program;
use std::io::Write as _;

/// Runs when the process ends by `exit` or by returning from `main`.
extern "C" fn at_exit() {
    // A panic must not unwind into C, and at exit there is nowhere to report it.
    let _ = std::panic::catch_unwind(print_exit_message);
}

#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

fn print_exit_message() {
    let Some(totals) = totals_of_this_program() else {
        return;
    };
    if totals.devices_opened > 0 {
        return;
    }
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = name.trim();
    let line = format!(
        "roce run: no RDMA device was opened by {name} or what it started; `roce doctor {name}` \
         looks for the cause\n"
    );
    // At exit, there is nowhere to report an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

//! At a program's end, prints the message of `roce run` that no device was opened.
//!
//! `roce run` has become the program, so no process of its own remains. It preloads this library,
//! so this also runs in programs that do not use RDMA.

use roce_verbs::observation::totals_of_this_program;
use std::io::Write as _;

/// Runs when the process ends by `exit` or by returning from `main`.
extern "C" fn at_exit() {
    // A panic must not reach C, and there is no place left to report one.
    let _ = std::panic::catch_unwind(say_farewell);
}

#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

fn say_farewell() {
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
    // There is no place left to report an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

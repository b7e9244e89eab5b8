//! The C API of the connection manager, called by a C program that interprets the fuzz input as a
//! script: [`c_api/cm.c`](../c_api/cm.c).

#![no_main]

use std::ffi::c_int;

use libfuzzer_sys::fuzz_target;
// The library under test. Its symbols resolve the calls of the C program.
use roce_verbs_shim as _;

unsafe extern "C" {
    /// Moves the process into its own network namespace with a loopback interface. Returns 0 on
    /// success.
    safe fn c_cm_init() -> c_int;
    /// Runs a script of `len` bytes; aborts if the library violates its contract.
    fn c_cm_run(script: *const u8, len: usize);
}

fuzz_target!(
    init: {
        if c_cm_init() != 0 {
            eprintln!("no network namespace of its own: UDP port 4791 is shared with others");
        }
    },
    |script: &[u8]| {
        // SAFETY: the pointer and the length are those of a live slice, and the C function only
        // reads it.
        unsafe { c_cm_run(script.as_ptr(), script.len()) }
    }
);

//! The C API, called by a program in C with whatever a script says: [`c_api/`](../c_api).

#![no_main]

use std::ffi::c_int;

use libfuzzer_sys::fuzz_target;
// The library under test. What C calls it finds by its symbols.
use roce_verbs_shim as _;

unsafe extern "C" {
    /// Gives the process a loopback interface of its own. 0 if it has one.
    safe fn c_api_init() -> c_int;
    /// Plays a script of `len` bytes; aborts if a promise is not kept.
    fn c_api_run(script: *const u8, len: usize);
}

fuzz_target!(
    init: {
        if c_api_init() != 0 {
            eprintln!("no network namespace of its own: UDP port 4791 is shared with others");
        }
    },
    |script: &[u8]| {
        // SAFETY: so many bytes are there, and C only reads them.
        unsafe { c_api_run(script.as_ptr(), script.len()) }
    }
);

//! Sockets over RDMA in C, called by two threads that interpret the fuzz input as scripts:
//! [`c_api/rsocket.c`](../c_api/rsocket.c).

#![no_main]

use std::ffi::c_int;

use libfuzzer_sys::fuzz_target;
// The library under test. Its symbols resolve the calls of the C program.
use roce_verbs_shim as _;

unsafe extern "C" {
    /// Moves the process into its own network namespace with a loopback interface. Returns 0 on
    /// success.
    safe fn c_rsocket_init() -> c_int;
    /// Runs a script of `len` bytes; aborts if the library violates its contract.
    fn c_rsocket_run(script: *const u8, len: usize);
}

fuzz_target!(
    init: {
        if c_rsocket_init() != 0 {
            eprintln!("no network namespace of its own: UDP port 4791 is shared with others");
        }
    },
    |script: &[u8]| {
        // SAFETY: the pointer and the length are those of a live slice, and the C function only
        // reads it.
        unsafe { c_rsocket_run(script.as_ptr(), script.len()) }
    }
);

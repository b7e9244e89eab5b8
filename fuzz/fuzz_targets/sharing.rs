//! What other processes of the host send to a process that shares an address with them: messages
//! with any bytes and any number of descriptors, names in the kernel's tables, and packets.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;

/// The number of this process's descriptors.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fuzz_target!(|script: &[u8]| {
    let before = descriptors();
    roce_udp::hostile::run_script(script);
    assert_eq!(descriptors(), before, "descriptors are left open");
});

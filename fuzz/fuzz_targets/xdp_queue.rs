//! A queue against a kernel that lies.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| roce_xdp::double::lie(script));

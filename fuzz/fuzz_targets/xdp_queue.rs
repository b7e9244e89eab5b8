//! An AF_XDP queue whose rings the kernel's side fills with arbitrary values.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| roce_xdp::double::run_script(script));

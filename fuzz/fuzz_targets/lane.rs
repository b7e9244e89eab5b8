//! A ring in shared memory, of which one end writes arbitrary bytes at any time.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| roce_local::hostile::run_script(script));

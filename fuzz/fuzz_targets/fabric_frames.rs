//! Any frames of the hosts of an emulated network, with a recorder.
//!
//! Invariants: nothing panics; every frame is delivered or dropped in the end.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_fabric::fuzzing::carry(data));

//! Helpers for the integration tests.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod ports;
pub(crate) mod queues;

use std::time::{Duration, Instant};

/// The time that a test waits for an event before it fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Calls `look` until it returns a value.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        std::thread::yield_now();
    }
}

/// Bytes whose content depends on `number`.
pub(crate) fn bytes(number: usize, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32 ^ (number as u32).wrapping_mul(0x85eb_ca6b);
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

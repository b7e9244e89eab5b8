//! A peer that sends anything at all, with the right addresses and the right ICRC, to a QP in any
//! state that is in the middle of its own work.
//!
//! Nothing panics (test builds check overflow and assertions), memory that no key allows access to
//! is neither written nor read, and every posted request completes once, in order. `ROCE_SEEDS=n`
//! runs n seeds, `ROCE_SEED=n` that one only.

mod attack;
mod early;
mod guesses;
mod packets;

use attack::attack;

const SEEDS: u64 = 400;

// trap: hostile-packets
#[test]
fn hostile_packets_do_no_harm() {
    if let Some(seed) = crate::sim::env("ROCE_SEED") {
        return attack(seed);
    }
    for seed in 0..crate::sim::env("ROCE_SEEDS").unwrap_or(SEEDS) {
        let result = std::panic::catch_unwind(|| attack(seed));
        assert!(result.is_ok(), "failed: run again with ROCE_SEED={seed}");
    }
}

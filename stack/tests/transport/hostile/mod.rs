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
    testkit::each_seed(SEEDS, attack);
}

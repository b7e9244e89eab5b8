//! Random work in both directions over a wire that loses, doubles, reorders and
//! damages packets. A seed decides everything; each switches features on and off
//! (swarm testing), so that rare combinations come up.
//!
//! `ROCE_SEEDS=n` runs n seeds, `ROCE_SEED=n` that one alone, and with
//! `ROCE_TRACE=1` shows its packets.

mod plan;
mod run;

use run::soak;

/// How many seeds a normal test run takes.
const SEEDS: u64 = 300;

fn env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value:?}, but must be a number")),
    )
}

/// Every byte arrives, every completion comes, in order, every atomic happens once.
#[test]
fn random_work_over_a_faulty_wire_completes_intact() {
    if let Some(seed) = env("ROCE_SEED") {
        return soak(seed);
    }
    for seed in 0..env("ROCE_SEEDS").unwrap_or(SEEDS) {
        let result = std::panic::catch_unwind(|| soak(seed));
        assert!(result.is_ok(), "failed: run again with ROCE_SEED={seed}");
    }
}

//! Random work in both directions over a wire that loses, duplicates, reorders and damages packets.
//! A seed decides everything; each switches features on and off (swarm testing), so that rare
//! combinations occur.
//!
//! `ROCE_SEEDS=n` runs n seeds, `ROCE_SEED=n` that one only; `ROCE_TRACE=1` shows its packets.

mod plan;
mod run;

use run::{End, soak};

/// The number of seeds of a normal test run.
const SEEDS: u64 = 300;

/// Every byte arrives, every completion arrives, in order, and every atomic is executed once.
///
/// If the wire loses every tenth packet, a request may be lost by chance as often as the retry
/// count allows; that must be rare.
// shows: 9.5-executed-in-order, 9.5-completed-in-order, 9.5-received-in-order
// shows: 9.7.4.1.1-expected, 9.7.6.1.3-timeout-resends, 10.8.2-order, 11.4.2.1-fifo
#[test]
fn random_work_over_a_faulty_wire_completes_intact() {
    let seeds = testkit::seeds(SEEDS);
    let mut given_up = Vec::new();
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| soak(seed)) {
            Ok(End::Complete) => {}
            Ok(End::RetriesUsedUp) => given_up.push(seed),
            Err(_) => panic!("failed: run again with ROCE_SEED={seed}"),
        }
    }
    let few = given_up.len() as u64 <= 2 + (seeds.end - seeds.start) / 200;
    assert!(few, "retries used up in too many runs: {given_up:?}");
}

//! Packets need no allocation: once every buffer has been in use, nothing is allocated. This file
//! has one test, since allocations of other tests at the same time would count.

#[allow(dead_code, unused_imports)]
#[path = "transport/sim/mod.rs"]
mod sim;

use roce_wire::Opcode;
use sim::{Hand, Setup, hand::frame};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// WRITEs of which every other one arrives out of order, and has to be kept.
#[test]
fn packets_in_any_order_allocate_nothing() {
    let mut hand = Hand::new(Setup {
        records: true,
        ..Setup::default()
    });
    let mem = hand.mem(64);
    let first = hand.psn;
    let order = (0..200).map(|n| first + (n ^ 1));
    let frames: Vec<_> = order
        .map(|psn| {
            let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
            frame(hand.meta(), bth, mem.reth(0, 8), &[1; 8])
        })
        .collect();
    let mut receive = |frames: &[sim::port::Frame]| {
        for frame in frames {
            hand.node.nic.receive(hand.now, &frame.meta, &frame.bytes);
        }
    };
    let (warm_up, rest) = frames.split_at(20);
    receive(warm_up);
    let region = Region::new(GLOBAL);
    receive(rest);
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
}

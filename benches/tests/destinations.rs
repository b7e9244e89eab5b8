//! Many QPs to many destinations, over UDP sockets. In a process of its own, because it counts
//! descriptors.

use roce_benches::scale::destinations::{
    DESTINATIONS, FLOW_SOCKETS, QPS, connect_sockets, move_data,
};
use roce_udp::UdpPortConfig;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// Counts allocations.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of open descriptors of this process.
fn descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux");
    open.count()
}

/// Bytes of heap that are in use.
fn heap_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Moves data from port 4791 alone. Returns the heap in use at the end.
fn without_flows() -> usize {
    let mut many = connect_sockets(0).expect("QPs");
    move_data(&mut many, QPS as u64).expect("each QP has moved data");
    heap_bytes()
}

#[test]
fn ten_thousand_qps_to_a_thousand_destinations_stay_within_the_bounds() {
    if !testkit::descriptors_or_skip(4096) {
        return;
    }
    let without = without_flows();
    let before = descriptors();
    let mut many = connect_sockets(FLOW_SOCKETS).expect("QPs");
    let receiving = descriptors() - before;
    assert!(receiving > DESTINATIONS, "a socket for each address");
    let moved = move_data(&mut many, QPS as u64).expect("each QP has moved data");
    let counters = many.wires().counters();
    assert!(counters.tx_flows_opened > 0, "{counters:?}");
    assert!(counters.tx_flows_full > 0, "the places ran out: {moved:?}");
    // Besides the heap, docs/design/datapath.md names the memory of packets that leave without a copy.
    let grown = heap_bytes().saturating_sub(without);
    assert!(grown <= 1 << 20, "{grown} bytes more than without flows");
    let config = UdpPortConfig::new("lo", 1, 65_536, Vec::new());
    assert_eq!(
        (config.flow_sockets, config.kept_bytes),
        (FLOW_SOCKETS, 8 << 20)
    );
    // The sockets for flows, and one pipe. The other ports have none.
    let most = before + receiving + FLOW_SOCKETS + 2;
    let now = descriptors();
    assert!(now <= most, "{now} descriptors, at most {most}");
    assert!(now > before + receiving, "no socket for a flow is open");
}

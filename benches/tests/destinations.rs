//! Many QPs to many destinations, over UDP sockets. In a process of its own, because it counts
//! descriptors.

use roce_benches::scale::destinations::{DESTINATIONS, FLOW_SOCKETS, QPS, connected, move_data};

/// The number of open descriptors of this process.
fn descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux");
    open.count()
}

/// The resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = pages.split_whitespace().nth(1).expect("a second figure");
    4096 * pages.parse::<usize>().expect("a number")
}

/// Moves data from port 4791 alone. Returns the resident memory at the end.
fn without_flows() -> usize {
    let mut many = connected(0).expect("QPs");
    move_data(&mut many, QPS as u64).expect("each QP has moved data");
    resident_bytes()
}

/// The most memory for packets that are sent without a copy, as docs/datapath.md says.
const KEPT: usize = 8 << 20;

#[test]
fn ten_thousand_qps_to_a_thousand_destinations_stay_within_the_bounds() {
    let without = without_flows();
    let before = descriptors();
    let mut many = connected(FLOW_SOCKETS).expect("QPs");
    let receiving = descriptors() - before;
    assert!(receiving > DESTINATIONS, "a socket for each address");
    let moved = move_data(&mut many, QPS as u64).expect("each QP has moved data");
    let counters = many.wires().counters();
    assert!(counters.tx_flows_opened > 0, "{counters:?}");
    assert!(counters.tx_flows_full > 0, "the places ran out: {moved:?}");
    // The allocator's own memory may have grown as well.
    let grown = resident_bytes().saturating_sub(without);
    assert!(grown <= 2 * KEPT, "{grown} bytes more than without flows");
    // The sockets for flows, and one pipe. The other ports have none.
    let most = before + receiving + FLOW_SOCKETS + 2;
    let now = descriptors();
    assert!(now <= most, "{now} descriptors, at most {most}");
    assert!(now > before + receiving, "no socket for a flow is open");
}

//! Tests a port while the process has no descriptors left: it sends in a slower way, and loses no
//! packets. The test has a process of its own, because it uses up the process's descriptors.

mod support;

use std::fs::File;
use std::net::IpAddr;
use std::num::NonZeroU64;

use roce_port::Port;
use roce_stack::{Acknowledged, Flow, Position, Sequenced, Transmit};
use roce_udp::{UdpPort, UdpPortConfig, UdpSplice};
use roce_wire::Qpn;

use support::{loopback_config, open, open_with, packet, receive, to};

const LEN: usize = 4112;
/// The number of packets in each datagram.
const PACKETS: usize = 4;

/// Lowers the limit of descriptors, which may be a million.
fn limit_descriptors() {
    let limit = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 256,
    };
    // SAFETY: the structure is read during the call only.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(result, 0, "a limit may always be lowered");
}

/// Opens files until only `left` descriptors are free. Dropping the result frees them again.
fn take_all_but(left: usize) -> Vec<File> {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.truncate(taken.len() - left);
    taken
}

/// Sends a datagram of a flow. Returns its source port.
fn send(from: &mut UdpPort, into: &mut UdpPort, ends: (IpAddr, IpAddr), first: usize) -> u16 {
    let (near, far) = ends;
    let flow = Flow::new(Qpn::new(7).expect("24 bits"), Qpn::new(8).expect("24 bits"));
    let position = |number: usize| Position(NonZeroU64::new(number as u64 + 1).expect("not 0"));
    let mut source_port = 0;
    for number in first..first + PACKETS {
        let sequenced = Some(Sequenced {
            position: position(number),
            is_retransmission: false,
        });
        let slot = from
            .reserve_run(&to(near, far), flow, sequenced, LEN, 1)
            .expect("room");
        slot.bytes.copy_from_slice(&packet(number, LEN));
        source_port = slot.src_port;
        from.commit();
    }
    assert!(from.flush().expect("loopback is there"));
    for (number, got) in (first..).zip(receive(into, PACKETS)) {
        assert!(got.bytes == packet(number, LEN), "packet {number}");
        assert_eq!(got.meta.src_port, source_port);
    }
    from.acknowledged(flow, Acknowledged::Before(position(first + PACKETS)));
    source_port
}

#[test]
fn without_descriptors_the_port_sends_in_slower_ways() {
    limit_descriptors();
    let ends @ (near, far) = (
        IpAddr::from([127, 102, 1, 1]),
        IpAddr::from([127, 102, 1, 2]),
    );
    let mut from = open_with(UdpPortConfig {
        splice: UdpSplice::From(0),
        ..loopback_config(near)
    });
    assert_eq!(from.offer().why_copied, None, "Linux 6.5 or newer");
    let mut into = open(far);
    let first = |round: usize| round * PACKETS;

    // No descriptor for a flow's socket: the address's own socket sends.
    let taken = take_all_but(0);
    assert_eq!(send(&mut from, &mut into, ends, first(0)), 4791);
    let refused = from.counters().tx_flows_refused;
    assert!(refused > 0);
    // For a while, the port does not try again.
    for round in 1..10 {
        assert_eq!(send(&mut from, &mut into, ends, first(round)), 4791);
    }
    assert_eq!(from.counters().tx_flows_refused, refused);
    assert_eq!(from.counters().tx_flows_opened, 0);
    drop(taken);

    // After a pause, the port tries again. There is one descriptor for the socket and none for a
    // pipe, so the kernel copies.
    let taken = take_all_but(1);
    let mut round = 10;
    while send(&mut from, &mut into, ends, first(round)) == 4791 {
        round += 1;
        assert!(round < 100_000, "it never tries again");
    }
    assert_eq!(from.counters().tx_flows_opened, 1);
    assert!(from.counters().tx_splice_refused > 0);
    assert_eq!(from.counters().tx_spliced_bytes, 0);
    drop(taken);

    // With free descriptors, the port sends without a copy again.
    send(&mut from, &mut into, ends, first(round + 1));
    assert!(from.counters().tx_spliced_bytes > 0);
    assert_eq!(from.counters().tx_wrong_ids, 0);
}

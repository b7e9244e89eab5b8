//! Tests packets that a port cannot send because its queue is full, they never fit, or the kernel
//! refuses them.

use std::net::IpAddr;

use roce_port::Port;
use roce_stack::{Flow, ReserveError, Transmit};
use roce_udp::{TxDrop, UdpPort, UdpPortConfig};
use roce_wire::Qpn;

use crate::support::{loopback_config, open, open_with, packet, receive, send, to};
use crate::{V6, pair};

#[test]
fn a_full_queue_is_reported_and_loses_nothing() {
    let (near, far) = pair(6);
    let mut from = open_with(UdpPortConfig {
        queue_bytes: 0,
        ..loopback_config(near)
    });
    let mut into = open(far);
    for round in 1..=3 {
        let mut queued = 0;
        while from
            .reserve_run(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 4112, 1)
            .is_ok()
        {
            send(&mut from, &to(near, far), &packet(queued, 4112));
            queued += 1;
        }
        assert!(queued > 25, "128 KiB hold 31 packets, not {queued}");
        let full = from
            .reserve_run(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 4112, 1)
            .map(|_| ());
        assert_eq!(full, Err(ReserveError::Full));
        assert_eq!(from.counters().tx_queue_full, 2 * round);
        assert_eq!(from.queued(), queued);
        assert!(from.flush().expect("loopback is there"));
        for (number, got) in receive(&mut into, queued).iter().enumerate() {
            assert!(got.bytes == packet(number, 4112), "packet {number}");
        }
    }
}

#[test]
fn unsendable_packets_are_refused_and_counted() {
    let (near, far) = pair(7);
    let config = UdpPortConfig::new("lo", 1, 1500, vec![near, V6]);
    let mut port = UdpPort::new(config);
    assert_eq!(
        port.capabilities().max_packet_bytes,
        1452,
        "1500 less IPv6 and UDP headers"
    );
    port.activate(near).expect("a loopback address");
    let attempts = [
        (to(near, far), 1473),
        (to(near, far), usize::MAX),
        (to(near, far), 0),
        (to(near, V6), 100),
        (to(far, near), 100),
        (to(V6, V6), 100),
    ];
    for (to, len) in attempts {
        let refused = port
            .reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, len, 1)
            .map(|_| ());
        assert_eq!(refused, Err(ReserveError::Unsendable), "{len} bytes {to:?}");
    }
    assert_eq!(port.counters().tx_unsendable, attempts.len() as u64);
    assert!(
        port.reserve_run(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 1472, 1)
            .is_ok()
    );
}

#[test]
fn packets_that_the_kernel_refuses_are_counted_and_others_are_sent() {
    let (near, far) = pair(8);
    let (mut from, mut into) = (open(near), open(far));
    let broadcast = IpAddr::from([255, 255, 255, 255]);
    // Loopback addresses can't reach beyond the machine.
    let distant = IpAddr::from([192, 0, 2, 1]);
    for number in 0..3 {
        send(&mut from, &to(near, far), &packet(number, 50));
        for _ in 0..5 {
            send(&mut from, &to(near, distant), &packet(0, 60));
        }
        send(&mut from, &to(near, broadcast), &packet(0, 60));
    }
    assert!(from.flush().expect("the interface is there"));
    for (number, got) in receive(&mut into, 3).iter().enumerate() {
        assert!(got.bytes == packet(number, 50), "packet {number}");
    }
    let counters = *from.counters();
    // A machine without a default route has no way there.
    let [invalid, without_route] =
        [TxDrop::Invalid, TxDrop::NetworkUnreachable].map(|drop| counters.dropped(drop));
    assert_eq!(invalid + without_route, 15, "{counters:?}");
    assert_eq!(counters.dropped(TxDrop::Forbidden), 3, "{counters:?}");
    assert_eq!(counters.dropped_in_all(), 18, "{counters:?}");
    assert_eq!(counters.tx_packets, 3);
    // An impossible destination is no evidence about segmentation.
    for _ in 0..2 {
        send(&mut from, &to(near, far), b"equal");
    }
    assert!(from.flush().expect("the interface is there"));
    assert_eq!(from.counters().tx_datagrams, 4, "the last two are joined");
}

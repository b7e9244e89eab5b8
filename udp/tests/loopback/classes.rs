//! Tests that the traffic class and the ECN bits arrive, also when packets of one flush differ in
//! them.

use std::net::IpAddr;

use roce_port::Port;
use roce_stack::TxMeta;
use roce_udp::UdpPort;

use crate::support::{open, packet, receive, send, to};
use crate::{V6, exchange, open_v6, pair};

fn classes(from: &mut UdpPort, mut into: Option<&mut UdpPort>, to: &TxMeta) {
    // Each class comes once, or repeatedly so that the socket adopts it.
    for traffic_class in [0, 2, 2, 2, 1, 3, 1, 0, 0, 0xb8, 0xba, 0xba, 0xff, 2] {
        let to = TxMeta {
            traffic_class,
            ..*to
        };
        exchange(from, into.as_deref_mut(), &to, &[24]);
        exchange(from, into.as_deref_mut(), &to, &[24, 24, 24, 7]);
    }
}

// shows: CA17-4-dscp
#[test]
fn traffic_class_and_ecn_arrive_over_ipv4() {
    let (near, far) = pair(4);
    classes(&mut open(near), Some(&mut open(far)), &to(near, far));
}

// shows: CA17-13-dscp
#[test]
fn traffic_class_and_ecn_arrive_over_ipv6() {
    if let Some((_lock, mut port)) = open_v6("traffic class over IPv6") {
        classes(&mut port, None, &to(V6, V6));
    }
}

#[test]
fn datagrams_of_several_destinations_and_classes_leave_in_one_flush() {
    let (near, far) = pair(5);
    let other = IpAddr::from([127, 101, 5, 3]);
    let (mut from, mut into, mut third) = (open(near), open(far), open(other));
    for number in 0..150 {
        let dst = if number % 3 == 0 { other } else { far };
        let to = TxMeta {
            traffic_class: (number % 4) as u8,
            hop_limit: (number % 7) as u8,
            version: roce_stack::RoceVersion::V2,
            ..to(near, dst)
        };
        send(&mut from, &to, &packet(number, 100));
    }
    assert!(from.flush().expect("loopback is there"));
    assert_eq!(from.counters().tx_packets, 150);
    let expected = |chosen: fn(&usize) -> bool| (0..150).filter(chosen).collect::<Vec<_>>();
    for (port, numbers) in [
        (&mut into, expected(|number| number % 3 != 0)),
        (&mut third, expected(|number| number % 3 == 0)),
    ] {
        let received = receive(port, numbers.len());
        for (got, number) in received.iter().zip(numbers) {
            assert!(got.bytes == packet(number, 100), "packet {number}");
            assert_eq!(
                usize::from(got.meta.traffic_class),
                number % 4,
                "packet {number}"
            );
        }
    }
}

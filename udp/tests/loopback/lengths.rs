//! Packets of all lengths arrive complete and in order, with and without segmentation.

use roce_port::Port;
use roce_stack::IpCovered;
use roce_udp::UdpPortConfig;

use crate::support::{loopback_config, open, open_with, packet, receive, send, to};
use crate::{V6, exchange, open_v6, pair};

/// Mixed lengths: sequences that the transport sends, and sequences that it should never send.
fn mixes(longest: usize) -> Vec<Vec<usize>> {
    let mut mixes = vec![
        vec![1],
        vec![1, 2, 3, 4, 3, 2, 1],
        vec![20; 200],
        vec![1056, 1040, 1040, 1040, 900, 20, 20],
        vec![4112; 40],
        vec![4128, 4112, 4112, 4112, 17],
        vec![32_753, 32_753, 32_753, 1],
        vec![longest, 1, longest, longest],
        (1..300).collect(),
        (1..300).rev().collect(),
    ];
    let mut state = 7_usize;
    for _ in 0..20 {
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let count = 1 + random(60);
        let usual = 1 + random(4200);
        let lens = (0..count).map(|_| {
            if random(4) > 0 {
                usual
            } else {
                1 + random(4200)
            }
        });
        mixes.push(lens.collect());
    }
    mixes
}

#[test]
fn every_mix_of_lengths_arrives_in_order_over_ipv4() {
    let (near, far) = pair(1);
    let (mut from, mut into) = (open(near), open(far));
    for lens in mixes(65_507) {
        exchange(&mut from, Some(&mut into), &to(near, far), &lens);
    }
    assert_eq!(from.counters().dropped_in_all(), 0);
    assert_eq!(into.counters().rx_packets, from.counters().tx_packets);
    assert_eq!(into.counters().rx_bytes, from.counters().tx_bytes);
}

#[test]
fn every_mix_of_lengths_arrives_in_order_over_ipv6() {
    let Some((_lock, mut port)) = open_v6("every mix of lengths over IPv6") else {
        return;
    };
    for lens in mixes(65_487) {
        exchange(&mut port, None, &to(V6, V6), &lens);
    }
    assert_eq!(port.counters().rx_bytes, port.counters().tx_bytes);
}

#[test]
fn every_mix_of_lengths_arrives_without_segmentation() {
    let (near, far) = pair(2);
    let mut from = open_with(UdpPortConfig {
        segmentation: false,
        ..loopback_config(near)
    });
    let mut into = open(far);
    for lens in mixes(65_507) {
        exchange(&mut from, Some(&mut into), &to(near, far), &lens);
    }
    assert_eq!(from.counters().tx_datagrams, from.counters().tx_packets);
    let id = |ip| match ip {
        IpCovered::V4 { id, .. } => id,
        other => panic!("IPv4 has an identification: {other:?}"),
    };
    let first = id(send(&mut from, &to(near, far), b"first"));
    let again = id(send(&mut from, &to(near, far), b"again"));
    assert_eq!(
        again,
        first.wrapping_add(1),
        "each is a datagram of its own"
    );
}

#[test]
fn a_port_without_segmentation_still_receives_bundles() {
    let (near, far) = pair(16);
    let mut into = open_with(UdpPortConfig {
        segmentation: false,
        ..loopback_config(far)
    });
    exchange(
        &mut open(near),
        Some(&mut into),
        &to(near, far),
        &[1040; 40],
    );
    assert_eq!(into.counters().rx_bundles, 1);
}

#[test]
fn consecutive_equal_packets_leave_as_one_datagram() {
    let (near, far) = pair(3);
    let (mut from, mut into) = (open(near), open(far));
    let mut first = None;
    for number in 0..40 {
        let ip = send(&mut from, &to(near, far), &packet(0, 1040));
        let IpCovered::V4 { id, flags_fragment } = ip else {
            panic!("IPv4 has an identification: {ip:?}");
        };
        let expected = first.get_or_insert(id).wrapping_add(number);
        assert_eq!((id, flags_fragment), (expected, 0x4000));
    }
    assert_eq!(from.queued(), 40);
    assert!(from.flush().expect("loopback is there"));
    assert_eq!(from.counters().tx_datagrams, 1);
    receive(&mut into, 40);
    assert_eq!(into.counters().rx_bundles, 1, "and arrives in one piece");
}

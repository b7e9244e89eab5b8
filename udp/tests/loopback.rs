//! Ports over the loopback interface, as any user may run them. Each test has its
//! own addresses in 127/8; those over `::1`, of which there is one, take turns.

mod support;

use roce_wire::Qpn;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roce_port::Port;
use roce_stack::{Flow, IpCovered, ReserveError, RxMeta, Transmit, TxMeta};
use roce_udp::{TxDrop, UdpPort, UdpPortConfig};
use support::{
    Received, loopback_config, open, open_with, packet, receive, receive_now, send, skip, to,
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The right to have a port at `::1`, and that port, which sends to itself. It is
/// closed before the right passes on.
fn open_v6(test: &str) -> Option<(MutexGuard<'static, ()>, UdpPort)> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if UdpSocket::bind((V6, 0)).is_err() {
        skip(test, "the loopback interface has no ::1");
        return None;
    }
    Some((turn, open(V6)))
}

/// The two addresses of test `test`.
fn pair(test: u8) -> (IpAddr, IpAddr) {
    let address = |last| IpAddr::from([127, 101, test, last]);
    (address(1), address(2))
}

/// Sends packets of these lengths, from one port to the other or, if there is no other, to itself,
/// and checks that they arrive. Keeps no more of them in flight than a small receive buffer holds.
fn exchange(from: &mut UdpPort, mut into: Option<&mut UdpPort>, to: &TxMeta, lens: &[usize]) {
    let mut rest = lens;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |&&len: &&usize| {
            bytes += len + 1000;
            bytes <= 130_000
        };
        let count = rest.iter().take_while(fits).count();
        let (group, later) = rest.split_at(count);
        exchange_group(from, into.as_deref_mut(), to, group);
        rest = later;
    }
}

fn exchange_group(from: &mut UdpPort, into: Option<&mut UdpPort>, to: &TxMeta, lens: &[usize]) {
    let packets = lens.iter().enumerate();
    let sent: Vec<Vec<u8>> = packets.map(|(number, &len)| packet(number, len)).collect();
    for bytes in &sent {
        send(from, to, bytes);
    }
    assert!(
        from.flush().expect("loopback is there"),
        "loopback takes everything"
    );
    assert_eq!(from.queued(), 0);
    let received = receive(into.unwrap_or(from), sent.len());
    let ip = if to.dst.is_ipv4() {
        IpCovered::V4Hidden
    } else {
        IpCovered::V6
    };
    let meta = RxMeta {
        src: to.src,
        dst: to.dst,
        src_port: 4791,
        traffic_class: to.traffic_class,
        ip,
    };
    for (index, (got, bytes)) in received.iter().zip(&sent).enumerate() {
        assert_eq!(got.meta, meta, "packet {index} of {lens:?}");
        assert_eq!(got.bytes.len(), bytes.len(), "packet {index} of {lens:?}");
        assert!(
            got.bytes == *bytes,
            "packet {index} of {lens:?} has other bytes"
        );
    }
    assert_eq!(received.len(), sent.len(), "no packet more than was sent");
}

/// Mixed lengths: those that the transport sends, and those that it never should.
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
    let Some((_turn, mut port)) = open_v6("every mix of lengths over IPv6") else {
        return;
    };
    for lens in mixes(65_487) {
        exchange(&mut port, None, &to(V6, V6), &lens);
    }
    assert_eq!(port.counters().rx_bytes, port.counters().tx_bytes);
}

#[test]
fn without_segmentation_everything_arrives_too() {
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
    let ip = send(&mut from, &to(near, far), b"first");
    assert_eq!(
        ip,
        send(&mut from, &to(near, far), b"again"),
        "each has identification 0"
    );
}

#[test]
fn what_does_not_segment_still_receives_in_one_piece() {
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
fn the_mtu_of_an_interface_is_told_or_why_not() {
    assert!(roce_udp::interface_mtu("lo").expect("every machine has it") >= 1280);
    for name in ["", "no-such-if", "a-name-far-too-long-for-an-interface"] {
        assert!(roce_udp::interface_mtu(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_row_of_equal_packets_leaves_as_one_datagram() {
    let (near, far) = pair(3);
    let (mut from, mut into) = (open(near), open(far));
    for expected in 0..40 {
        let ip = send(&mut from, &to(near, far), &packet(0, 1040));
        let IpCovered::V4 { id, flags_fragment } = ip else {
            panic!("IPv4 has an identification: {ip:?}");
        };
        assert_eq!((id, flags_fragment), (expected, 0x4000));
    }
    assert_eq!(from.queued(), 40);
    assert!(from.flush().expect("loopback is there"));
    assert_eq!(from.counters().tx_datagrams, 1);
    receive(&mut into, 40);
    assert_eq!(into.counters().rx_bundles, 1, "and arrives in one piece");
}

fn classes(from: &mut UdpPort, mut into: Option<&mut UdpPort>, to: &TxMeta) {
    // Alone, repeated (the socket takes the class for its own), changing, joined.
    for traffic_class in [0, 2, 2, 2, 1, 3, 1, 0, 0, 0xb8, 0xba, 0xba, 0xff, 2] {
        let to = TxMeta {
            traffic_class,
            ..*to
        };
        exchange(from, into.as_deref_mut(), &to, &[24]);
        exchange(from, into.as_deref_mut(), &to, &[24, 24, 24, 7]);
    }
}

// shows: A17.5-traffic-class
#[test]
fn traffic_class_and_ecn_arrive_over_ipv4() {
    let (near, far) = pair(4);
    classes(&mut open(near), Some(&mut open(far)), &to(near, far));
}

// shows: A17.5-traffic-class
#[test]
fn traffic_class_and_ecn_arrive_over_ipv6() {
    if let Some((_turn, mut port)) = open_v6("traffic class over IPv6") {
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

#[test]
fn a_full_queue_says_so_and_loses_nothing() {
    let (near, far) = pair(6);
    let mut from = open_with(UdpPortConfig {
        queue_bytes: 0,
        ..loopback_config(near)
    });
    let mut into = open(far);
    for round in 1..=3 {
        let mut queued = 0;
        while from
            .reserve(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 4112)
            .is_ok()
        {
            send(&mut from, &to(near, far), &packet(queued, 4112));
            queued += 1;
        }
        assert!(queued > 25, "128 KiB hold 31 packets, not {queued}");
        let full = from
            .reserve(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 4112)
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
fn what_can_never_be_sent_is_refused_and_counted() {
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
            .reserve(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, len)
            .map(|_| ());
        assert_eq!(refused, Err(ReserveError::Unsendable), "{len} bytes {to:?}");
    }
    assert_eq!(port.counters().tx_unsendable, attempts.len() as u64);
    assert!(
        port.reserve(&to(near, far), Flow::new(Qpn::QP0, Qpn::QP0), None, 1472)
            .is_ok()
    );
}

#[test]
fn what_the_kernel_refuses_is_dropped_by_reason_and_the_rest_goes_on() {
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
    assert_eq!(counters.dropped(TxDrop::Invalid), 15, "{counters:?}");
    assert_eq!(counters.dropped(TxDrop::Forbidden), 3, "{counters:?}");
    assert_eq!(counters.dropped_in_all(), 18, "{counters:?}");
    assert_eq!(counters.tx_packets, 3);
    // An impossible destination is no evidence about segmentation.
    send(&mut from, &to(near, far), b"equal");
    let second = send(&mut from, &to(near, far), b"equal");
    assert!(matches!(second, IpCovered::V4 { id: 1, .. }), "{second:?}");
}

#[test]
fn errors_of_activation_say_what_to_do() {
    let (near, far) = pair(9);
    let elsewhere = IpAddr::from([198, 51, 100, 7]);
    let mut port = UdpPort::new(UdpPortConfig::new("lo", 1, 65536, vec![near, elsewhere]));

    let foreign = port
        .activate(far)
        .expect_err("not an address of the port")
        .to_string();
    for part in [
        "127.101.9.2",
        "4791",
        "no address of lo",
        "127.101.9.1, 198.51.100.7",
    ] {
        assert!(foreign.contains(part), "{part:?} is missing: {foreign}");
    }
    let gone = port
        .activate(elsewhere)
        .expect_err("not an address of the machine")
        .to_string();
    for part in [
        "198.51.100.7",
        "4791",
        "lo doesn't have the address",
        "ip address show dev lo",
    ] {
        assert!(gone.contains(part), "{part:?} is missing: {gone}");
    }
    let _taken = UdpSocket::bind((near, 4791)).expect("nobody else has it");
    let taken = port.activate(near).expect_err("taken").to_string();
    for part in [
        "127.101.9.1",
        "4791",
        "another program",
        "ss -ulnp",
        "rdma_rxe",
    ] {
        assert!(taken.contains(part), "{part:?} is missing: {taken}");
    }
    assert_eq!(port.fds().len(), 0);
}

#[test]
fn activating_twice_is_nothing_and_addresses_can_go() {
    let (near, far) = pair(10);
    let mut port = open_with(UdpPortConfig::new("lo", 1, 65536, vec![near, far]));
    port.activate(near).expect("again");
    assert_eq!(port.fds().len(), 2);
    send(&mut port, &to(near, far), b"kept");
    send(&mut port, &to(far, near), b"lost");
    assert_eq!(port.fds().filter(|fd| fd.wants_write).count(), 2);
    port.set_addresses(vec![near]);
    assert_eq!(port.counters().dropped(TxDrop::AddressGone), 1);
    assert_eq!((port.fds().len(), port.queued()), (1, 1));
    assert!(
        port.reserve(&to(far, near), Flow::new(Qpn::QP0, Qpn::QP0), None, 4)
            .is_err()
    );
    assert!(port.activate(far).is_err());
    // Its UDP port is free again.
    let mut other = open(far);
    assert!(port.flush().expect("loopback is there"));
    assert_eq!(receive(&mut other, 1)[0].bytes, b"kept");
    assert!(port.fds().all(|fd| !fd.wants_write));
}

#[test]
fn any_datagram_from_anybody_reaches_the_sink() {
    let (near, far) = pair(11);
    let mut port = open(near);
    let stranger = UdpSocket::bind((far, 0)).expect("any port");
    let stranger_port = stranger.local_addr().expect("bound").port();
    let mut lens: Vec<usize> = vec![0, 1, 0, 0, 65_507, 3, 12, 0, 65_507, 65_506, 1500];
    lens.extend(0..200);
    for (number, len) in lens.into_iter().enumerate() {
        let bytes = packet(number, len);
        stranger
            .send_to(&bytes, (near, 4791))
            .expect("loopback takes it");
        let got = receive(&mut port, 1);
        assert_eq!(got[0].meta.src_port, stranger_port);
        assert_eq!(got[0].meta.src, far);
        assert_eq!(got[0].meta.ip, IpCovered::V4Hidden);
        assert!(got[0].bytes == bytes, "{len} bytes");
    }
    assert_eq!(
        port.counters().rx_truncated + port.counters().rx_no_source,
        0
    );
}

#[test]
fn an_empty_port_hands_out_nothing_and_a_budget_holds_for_lone_packets() {
    let (near, far) = pair(12);
    let (mut port, mut none) = (open(near), Vec::new());
    assert_eq!(receive_now(&mut port, &mut none), 0);
    let stranger = UdpSocket::bind((far, 0)).expect("any port");
    for number in 0..40 {
        stranger
            .send_to(&packet(number, 9), (near, 4791))
            .expect("loopback takes it");
    }
    let (mut received, mut most) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut sink = |_: &RxMeta, bytes: &[u8]| received.push(bytes.to_vec());
        most = most.max(port.receive(3, &mut sink).expect("a port that works"));
    }
    assert_eq!(
        received,
        (0..40).map(|number| packet(number, 9)).collect::<Vec<_>>()
    );
    assert!(most <= 3, "{most} packets in one call");
    let mut sink = |_: &RxMeta, _: &[u8]| panic!("nothing was asked for");
    stranger
        .send_to(b"waits", (near, 4791))
        .expect("loopback takes it");
    assert_eq!(port.receive(0, &mut sink).expect("a port that works"), 0);
}

#[test]
fn every_activated_address_gets_its_turn() {
    let (near, far) = pair(13);
    let mut port = open_with(UdpPortConfig::new("lo", 1, 65536, vec![near, far]));
    for (src, dst) in [(near, far), (far, near)] {
        for number in 0..10 {
            send(&mut port, &to(src, dst), &packet(number, 77));
        }
    }
    assert!(port.flush().expect("loopback is there"));
    let received = receive(&mut port, 20);
    for dst in [near, far] {
        let own: Vec<_> = received.iter().filter(|got| got.meta.dst == dst).collect();
        assert_eq!(own.len(), 10);
        for (number, got) in own.iter().enumerate() {
            assert!(got.bytes == packet(number, 77));
        }
    }
}

#[test]
fn quiet_addresses_are_looked_at_even_while_another_is_busy() {
    let address = |last| IpAddr::from([127, 101, 15, last]);
    let (busy, quiet) = (address(1), [address(2), address(3)]);
    let addresses = vec![busy, quiet[0], quiet[1]];
    let mut port = open_with(UdpPortConfig {
        addresses,
        ..loopback_config(busy)
    });
    let mut nothing = |_: &RxMeta, _: &[u8]| panic!("nothing was sent");
    for _ in 0..1000 {
        port.receive(100, &mut nothing).expect("a port that works");
    }
    let stranger = UdpSocket::bind((address(4), 0)).expect("any port");
    for dst in quiet {
        stranger
            .send_to(b"quiet", (dst, 4791))
            .expect("loopback takes it");
    }
    let mut received = Vec::new();
    let mut calls = 0;
    while received
        .iter()
        .filter(|got: &&Received| got.bytes == b"quiet")
        .count()
        < 2
    {
        stranger
            .send_to(b"busy", (busy, 4791))
            .expect("loopback takes it");
        receive_now(&mut port, &mut received);
        calls += 1;
        assert!(calls < 100, "{received:?}");
    }
}

#[test]
fn a_port_can_move_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<UdpPort>();
}

#[test]
fn the_receive_buffer_is_what_the_kernel_gives() {
    let (near, _) = pair(14);
    let sized = |receive_buffer_bytes| {
        UdpPort::new(UdpPortConfig {
            receive_buffer_bytes,
            ..loopback_config(near)
        })
        .capabilities()
        .receive_buffer_bytes
    };
    // Every kernel's limit is above 64 KiB.
    assert_eq!(sized(64 << 10), 64 << 10);
    assert!(sized(1 << 30) >= sized(64 << 10));
}

/// A group's packets come to every port that joined it, the sender's own included, with
/// the group as their destination; and to none that left it.
#[test]
fn a_group_reaches_all_that_joined() {
    let (a, b) = pair(90);
    let group = IpAddr::from([239, 101, 90, 1]);
    let (mut sender, mut other) = (open(a), open(b));
    for port in [&mut sender, &mut other] {
        port.join(group).expect("the loopback interface can");
        port.join(group).expect("twice does nothing");
        assert_eq!(port.fds().len(), 2);
    }
    let sent: Vec<Vec<u8>> = (0..20).map(|number| packet(number, 1000)).collect();
    for bytes in &sent {
        send(&mut sender, &to(a, group), bytes);
    }
    assert!(sender.flush().expect("the interface is there"));
    for port in [&mut sender, &mut other] {
        let received = receive(port, sent.len());
        for (received, sent) in received.iter().zip(&sent) {
            assert_eq!((received.meta.src, received.meta.dst), (a, group));
            assert_eq!(received.bytes, *sent);
        }
    }
    // Addresses that change do not end a membership; leaving does.
    other.set_addresses(vec![b]);
    assert_eq!(other.fds().len(), 2);
    other.leave(group);
    other.leave(b);
    assert_eq!(other.fds().len(), 1);
    send(&mut sender, &to(a, group), &packet(0, 100));
    assert!(sender.flush().expect("the interface is there"));
    assert_eq!(receive(&mut sender, 1).len(), 1);
    let mut none = Vec::new();
    receive_now(&mut other, &mut none);
    assert!(none.is_empty(), "it has left");
}

#[test]
fn only_groups_are_joined() {
    let (a, _) = pair(91);
    let mut port = open(a);
    let error = port
        .join(IpAddr::from([10, 0, 0, 1]))
        .expect_err("no group");
    assert!(error.to_string().contains("10.0.0.1"), "{error}");
}

//! Tests ports in two network namespaces over a veth pair: the packets on the wire, and effects of
//! a link that loopback lacks. These tests need root.

mod support;

use std::io::Read;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use roce_port::Port;
use roce_stack::{Flow, IpCovered, Transmit, TxMeta};
use roce_udp::{PortCheck, Refusal, TxDrop, UdpPort, UdpPortConfig};
use roce_wire::{Frame, NetworkHeader, Qpn};
use socket2::{Domain, Protocol, Socket, Type};
use support::netns::{FAR, FAR_LOCAL, NEAR, Pair, link_local};
use support::{open_with, packet, receive, send, to};
use testkit::veth::End;

/// A packet socket that sees all frames of a namespace.
fn capture(namespace: &End) -> Socket {
    const EVERY_PROTOCOL: u16 = 3;
    namespace.enter(|| {
        let protocol = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).expect("root may");
        socket.set_recv_buffer_size(4 << 20).expect("a buffer");
        let patience = Some(Duration::from_secs(10));
        socket.set_read_timeout(patience).expect("a timeout");
        socket
    })
}

/// The content of an Ethernet frame of RoCEv2 over IPv4: identification, flags and offset, and the
/// UDP payload.
fn roce_v4(frame: &[u8]) -> Option<(u16, u16, &[u8])> {
    let be = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let is_ours = be(12)? == 0x0800 && frame[23] == 17 && be(36)? == 4791;
    let end = 14 + usize::from(be(16)?);
    let payload = frame.get(42..end).filter(|_| is_ours)?;
    Some((be(18)?, be(20)?, payload))
}

/// Sends packets of these lengths, and compares each frame with the identification that its slot
/// predicted.
fn assert_identifications(port: &mut UdpPort, far: &End, lens: &[usize]) {
    let mut wire = capture(far);
    let mut predicted = Vec::new();
    for (number, &len) in lens.iter().enumerate() {
        let bytes = packet(number, len);
        predicted.push((send(port, &to(NEAR, FAR), &bytes), bytes));
    }
    assert!(port.flush().expect("the link is there"));
    let mut frame = vec![0; 1 << 16];
    let mut predicted = predicted.into_iter();
    while predicted.len() > 0 {
        let len = wire.read(&mut frame).expect("as many frames as packets");
        let Some((id, flags_fragment, payload)) = roce_v4(&frame[..len]) else {
            continue;
        };
        let (ip, bytes) = predicted.next().expect("a packet for each frame");
        assert!(
            payload == bytes,
            "{} bytes came, not {}",
            payload.len(),
            bytes.len()
        );
        assert_eq!(ip, IpCovered::V4 { id, flags_fragment });
    }
}

/// The lengths of packets that leave alone, in full datagrams, and in short ones.
const LENS: [&[usize]; 5] = [
    &[64],
    &[4112; 30],
    &[1056, 1040, 1040, 1040, 1040, 20, 20, 20],
    &[20; 150],
    &[1, 2, 3, 2, 1, 1, 1],
];

// shows: CA17-7-dont-fragment
#[test]
fn identifications_on_the_wire_are_as_predicted() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        // Make the near end segment the datagrams, because its identifications are under test.
        pair.near.run("ip link set near gso_max_segs 1");
        let (mut near, _far) = pair.ports();
        for lens in LENS {
            assert_identifications(&mut near, &pair.far, lens);
        }
        assert_eq!(near.counters().dropped_in_all(), 0);
        assert_eq!(near.counters().tx_flows_opened, 1);
    });
}

/// The headers that the kernel writes, for packets of an address's socket and of a flow's. With hop
/// limit 0, they have the kernel's default.
// shows: CA17-2-format, CA17-3-header-length, CA17-4-dscp, CA17-6-total-length
// shows: CA17-7-dont-fragment, CA17-8-no-fragments, CA17-9-time-to-live, CA17-10-protocol
// shows: CA17-11-source, CA17-12-destination, CA17-13-dscp, CA17-15-payload-length
// shows: CA17-16-next-header, CA17-17-hop-limit, CA17-18-source, CA17-19-destination
// shows: CA17-20-port, CA17-21-length
#[test]
fn headers_on_the_wire_have_the_fields_of_the_path() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        let (mut near, _far) = pair.ports();
        let mut wire = capture(&pair.far);
        let flow = |to_qp| Flow::new(Qpn::from_bits(to_qp), Qpn::from_bits(to_qp));
        for (src, dst) in [link_local(), (NEAR, FAR)] {
            for (number, hop_limit) in [0, 1, 7, 255].into_iter().enumerate() {
                for flow in [flow(0), flow(0x100)] {
                    let to = TxMeta {
                        traffic_class: 0x6a,
                        hop_limit,
                        ..to(src, dst)
                    };
                    let bytes = packet(number, 100);
                    let slot = near.reserve_run(&to, flow, None, bytes.len(), 1);
                    let slot = slot.expect("room for the packet");
                    slot.bytes.copy_from_slice(&bytes);
                    let src_port = slot.src_port;
                    near.commit();
                    assert!(near.flush().expect("the link is there"));
                    assert_headers(&mut wire, &to, src_port, &bytes);
                }
            }
        }
    });
}

/// Waits for the next frame of RoCEv2 from `to.src`, and checks its fields.
fn assert_headers(wire: &mut Socket, to: &TxMeta, src_port: u16, bytes: &[u8]) {
    let mut buffer = vec![0; 1 << 16];
    let (network, udp, transport) = loop {
        let len = wire.read(&mut buffer).expect("a frame for each packet");
        // There are also frames of neighbour discovery.
        if let Ok(frame) = Frame::parse_ethernet(&buffer[..len]) {
            break (frame.network, frame.udp.expect("UDP"), frame.transport);
        }
    };
    let hops = match to.hop_limit {
        0 => 64,
        limit => limit,
    };
    let found = match network {
        NetworkHeader::V4 {
            src,
            dst,
            tos,
            ttl,
            flags_fragment,
            options,
            ..
        } => {
            assert_eq!((flags_fragment, options), (0x4000, &[][..]));
            (IpAddr::from(src), IpAddr::from(dst), tos, ttl)
        }
        NetworkHeader::V6 {
            src,
            dst,
            traffic_class,
            hop_limit,
            ..
        } => (src.into(), dst.into(), traffic_class, hop_limit),
        NetworkHeader::Grh(_) => panic!("RoCE v1"),
    };
    assert_eq!(found, (to.src, to.dst, to.traffic_class, hops));
    assert_eq!((udp.src_port, udp.dst_port), (src_port, 4791));
    assert_eq!(transport, bytes);
}

/// The identification has 16 bits, and a flow's socket counts up as long as it is open.
#[test]
fn identifications_are_as_predicted_after_they_wrap() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        let (mut near, mut far) = pair.ports();
        for round in 0..700 {
            for number in 0..100 {
                send(&mut near, &to(NEAR, FAR), &packet(number, 64));
                assert!(near.flush().expect("the link is there"));
            }
            receive(&mut far, 100);
            if round % 100 == 0 {
                assert_identifications(&mut near, &pair.far, &[64]);
                receive(&mut far, 1);
            }
        }
        assert!(near.counters().tx_datagrams >= 70_000);
        assert_identifications(&mut near, &pair.far, &[64]);
        assert_eq!(near.counters().tx_flows_opened, 1);
        assert_eq!(near.counters().tx_wrong_ids, 0);
    });
}

/// The ICMP message becomes an error of the flow's connected socket, which the next call reports.
/// The error says nothing about the packet of that call.
#[test]
fn port_unreachable_costs_a_flow_no_packet_and_no_identification() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        let (mut near, far) = pair.ports();
        drop(far);
        for _ in 0..15 {
            assert_identifications(&mut near, &pair.far, &[64]);
        }
        assert_eq!(near.counters().tx_flows_opened, 1);
        assert_eq!(near.counters().dropped_in_all(), 0);
        assert_eq!(near.counters().tx_packets, 15);
        assert_eq!(near.counters().tx_wrong_ids, 0);
    });
}

#[test]
fn a_kernel_that_cannot_segment_costs_one_datagram_and_no_identification() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        let (_, mut far) = pair.ports();
        let mut near = open_with(UdpPortConfig {
            flow_sockets: 0,
            ..pair.near_config()
        });
        // A socket without checksums is refused segmentation (EINVAL) by every kernel;
        // before 6.11, one behind an interface without checksum offload was (EIO).
        for port_fd in near.fds() {
            support::set_option(&port_fd.fd, libc::SOL_SOCKET, libc::SO_NO_CHECK);
        }
        for _ in 0..10 {
            send(&mut near, &to(NEAR, FAR), &packet(0, 500));
        }
        assert!(near.flush().expect("the link is there"));
        assert_eq!(near.counters().dropped(TxDrop::NoSegmentation), 9);
        assert_eq!(near.counters().dropped_in_all(), 9);
        assert_eq!(receive(&mut far, 1)[0].bytes, packet(0, 500));
        for lens in LENS {
            assert_identifications(&mut near, &pair.far, lens);
        }
        assert_eq!(near.counters().dropped_in_all(), 9);
    });
}

// shows: CA17-1-families, CA17-11-source, CA17-12-destination, CA17-18-source
// shows: CA17-19-destination
#[test]
fn link_local_addresses_work_and_share_the_port_with_ipv4() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (mut near, mut far) = pair.ports();
    let (near_local, far_local) = link_local();
    for (src, dst) in [(near_local, far_local), (NEAR, FAR)] {
        let to = TxMeta {
            traffic_class: 3,
            hop_limit: 5,
            version: roce_stack::RoceVersion::V2,
            ..to(src, dst)
        };
        for number in 0..20 {
            send(&mut near, &to, &packet(number, 4112));
        }
        assert!(near.flush().expect("the link is there"));
        for (number, got) in receive(&mut far, 20).iter().enumerate() {
            assert!(got.bytes == packet(number, 4112), "packet {number}");
            assert_eq!((got.meta.src, got.meta.dst), (src, dst));
            assert_eq!(got.meta.traffic_class, 3);
        }
    }
}

// shows: A17.3.2.4-checksum
#[test]
fn ipv6_packets_without_udp_checksum_are_received() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (_near, mut far) = pair.ports();
    let sender = pair.near.enter(|| {
        // With this option, the kernel sends UDP checksum 0, as RoCE hardware does.
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).expect("root");
        support::set_option(&socket, libc::SOL_UDP, libc::UDP_NO_CHECK6_TX);
        socket
    });
    let scope = pair.near.index();
    let dst = std::net::SocketAddrV6::new(FAR_LOCAL.parse().expect("address"), 4791, 0, scope);
    sender
        .send_to(b"bare", &dst.into())
        .expect("the link is there");
    assert_eq!(receive(&mut far, 1)[0].bytes, b"bare");
}

#[test]
fn packets_wait_in_order_for_a_slow_link() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        pair.near
            .run("tc qdisc add dev near root tbf rate 200mbit burst 20k limit 100m");
        let config = UdpPortConfig {
            send_buffer_bytes: 40_000,
            ..pair.near_config()
        };
        let mut near = open_with(config);
        let far_config = pair.far_config();
        let mut far = pair.far.enter(|| open_with(far_config));
        const COUNT: usize = 200;
        for number in 0..COUNT {
            // The lengths increase, so no two packets join a datagram, and the kernel refuses many
            // small ones.
            send(&mut near, &to(NEAR, FAR), &packet(number, 3000 + number));
        }
        assert!(
            !near.flush().expect("the link is there"),
            "the link can't take it all at once"
        );
        assert!(near.queued() > 0 && near.queued() < COUNT);
        assert!(near.counters().tx_blocked > 0);
        assert!(near.fds().any(|fd| fd.wants_write));
        let (start, mut received) = (Instant::now(), Vec::new());
        while received.len() < COUNT {
            near.flush().expect("the link is there");
            support::receive_now(&mut far, &mut received);
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:?}",
                near.counters()
            );
        }
        for (number, got) in received.iter().enumerate() {
            assert!(
                got.bytes == packet(number, 3000 + number),
                "packet {number}"
            );
        }
        assert_eq!((near.queued(), near.counters().dropped_in_all()), (0, 0));
    });
}

#[test]
fn drops_are_counted_by_their_reason() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (mut near, mut far) = pair.ports();
    let unrouted = IpAddr::from([203, 0, 113, 1]);
    let prohibited = IpAddr::from([203, 0, 113, 2]);
    let unreachable = IpAddr::from([203, 0, 113, 3]);
    let narrow = IpAddr::from([203, 0, 113, 4]);
    pair.near.run("ip route add prohibit 203.0.113.2");
    pair.near.run("ip route add unreachable 203.0.113.3");
    pair.near.run("ip route add 203.0.113.4 dev near mtu 1500");
    for dst in [unrouted, prohibited, unreachable, narrow, FAR] {
        for _ in 0..3 {
            send(&mut near, &to(NEAR, dst), &packet(1, 4112));
        }
    }
    assert!(near.flush().expect("the interface is there"));
    assert_eq!(receive(&mut far, 3)[2].bytes, packet(1, 4112));
    let counters = near.counters();
    for reason in [
        TxDrop::NetworkUnreachable,
        TxDrop::Forbidden,
        TxDrop::HostUnreachable,
    ] {
        assert_eq!(counters.dropped(reason), 3, "{reason:?} in {counters:?}");
    }
    // The MTU of a route is no limit, as with RNICs: the interface's is (ADR 45).
    assert_eq!(counters.dropped_in_all(), 9);
    assert_eq!(counters.tx_packets, 6);
}

#[test]
fn a_removed_interface_is_an_error_and_not_a_loop() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (mut near, mut far) = pair.ports();
    near.check_interface().expect("it is there");
    pair.near.run("ip link delete near");
    assert!(near.check_interface().is_err());
    send(&mut near, &to(NEAR, FAR), b"too late");
    let error = near.flush().expect_err("the interface is gone").to_string();
    assert!(error.contains("interface near"), "{error}");
    assert_eq!(near.queued(), 0);
    // The other end of the pair is deleted, too. Receiving finds nothing.
    assert_eq!(support::receive_now(&mut far, &mut Vec::new()), 0);
    assert!(far.check_interface().is_err());
}

/// The kernel holds datagrams to hosts that do not answer ARP, and they fill the socket's buffer.
/// Strangers can cause them, by connection requests in the name of such hosts.
#[test]
fn answers_to_hosts_that_are_not_there_keep_no_packet_waiting() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    pair.near.enter(|| {
        // Without this, the kernel would give up after three seconds.
        let questions = "/proc/sys/net/ipv4/neigh/near/mcast_solicit";
        std::fs::write(questions, "1000").expect("root may");
        let mut near = open_with(UdpPortConfig {
            send_buffer_bytes: 200_000,
            ..pair.near_config()
        });
        let far_config = pair.far_config();
        let mut far = pair.far.enter(|| open_with(far_config));
        let mad = packet(0, 300);
        for number in 0..4000 {
            let nobody = IpAddr::from([10, 91, 0, 50 + (number % 200) as u8]);
            let flow = Flow::new(Qpn::QP1, Qpn::QP1);
            // When its queue is full, the port refuses more.
            if let Ok(slot) = near.reserve_run(&to(NEAR, nobody), flow, None, mad.len(), 1) {
                slot.bytes.copy_from_slice(&mad);
                near.commit();
            }
            near.flush().expect("the link is there");
        }
        assert!(near.counters().tx_blocked > 0, "{:?}", near.counters());
        let start = Instant::now();
        while near.queued() > 0 {
            near.flush().expect("the link is there");
            assert!(start.elapsed() < Duration::from_secs(20), "they wait");
        }
        assert!(near.counters().dropped(TxDrop::NoBuffer) > 0);
        send(&mut near, &to(NEAR, FAR), b"now");
        near.flush().expect("the link is there");
        assert_eq!(receive(&mut far, 1)[0].bytes, b"now");
    });
}

/// The kernel gives up on a neighbour after three questions. A host that is there and has not got
/// the port answers for itself.
#[test]
fn a_check_tells_a_missing_host_from_a_closed_port() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let index = pair.near.index();
    pair.near.enter(|| {
        let check = PortCheck::new(NEAR, index).expect("a socket");
        let missing = IpAddr::from([10, 91, 0, 77]);
        let unrouted = IpAddr::from([10, 99, 0, 1]);
        assert_eq!(check.ask(unrouted), Some(Refusal::HostUnreachable));
        assert_eq!(check.ask(missing), None);
        assert_eq!(check.ask(FAR), None);
        let mut refused = Vec::new();
        let end = Instant::now() + Duration::from_secs(60);
        while refused.len() < 2 {
            refused.extend(check.refused());
            assert!(Instant::now() < end, "{refused:?}");
        }
        let expected = [
            (FAR, Refusal::PortUnreachable),
            (missing, Refusal::HostUnreachable),
        ];
        assert_eq!(refused, expected);
    });
}

#[test]
fn port_unreachable_does_not_stop_the_port() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (mut near, far) = pair.ports();
    drop(far);
    for number in 0..5 {
        send(&mut near, &to(NEAR, FAR), &packet(number, 100));
        near.flush().expect("the link is there");
        assert_eq!(support::receive_now(&mut near, &mut Vec::new()), 0);
    }
    // Processes that other tests start may hold copies of the closed socket for a
    // moment, until they run their program.
    let start = Instant::now();
    let mut far = UdpPort::new(pair.far_config());
    while let Err(error) = pair.far.enter(|| far.activate(FAR)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{error}");
    }
    send(&mut near, &to(NEAR, FAR), b"now");
    assert!(near.flush().expect("the link is there"));
    assert_eq!(receive(&mut far, 1)[0].bytes, b"now");
    assert_eq!(
        near.counters().tx_packets + near.counters().dropped_in_all(),
        6
    );
}

/// Groups of both families over a link: the far end joins, and receives the packets that the near
/// end sends through its own interface, with the group as their destination.
#[test]
fn groups_are_joined_on_the_interface() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    let (mut near, mut far) = pair.ports();
    let parse = |text: &str| -> IpAddr { text.parse().expect("an address") };
    for (src, group) in [
        (NEAR, parse("239.8.7.6")),
        (link_local().0, parse("ff02::8:7:6")),
        (link_local().0, parse("ff15::8:7:6")),
    ] {
        pair.far
            .enter(|| far.join(group).expect("the link has multicast"));
        let sent: Vec<Vec<u8>> = (0..10).map(|number| packet(number, 500)).collect();
        for bytes in &sent {
            send(&mut near, &to(src, group), bytes);
        }
        assert!(near.flush().expect("the link is there"));
        let received = receive(&mut far, sent.len());
        for (received, sent) in received.iter().zip(&sent) {
            assert_eq!((received.meta.src, received.meta.dst), (src, group));
            assert_eq!(received.bytes, *sent);
        }
        far.leave(group);
    }
}

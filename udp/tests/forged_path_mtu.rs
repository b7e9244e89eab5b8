//! Forged ICMP messages about the MTU of a path, between two network namespaces. The test needs root.

mod support;

use roce_port::Port;
use roce_udp::UdpPortConfig;
use socket2::{Domain, Protocol, Socket, Type};
use support::netns::{FAR, FAR_LOCAL, NEAR, NEAR_LOCAL, Pair, link_local};
use support::{open_with, packet, receive, send, to};

/// The Internet checksum.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2);
    let words = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A "fragmentation needed" message with next-hop MTU 600, from an address that is on no path, about
/// a packet that the near host might have sent.
fn forged_v4(source_port: u16) -> Vec<u8> {
    let header = |source: [u8; 4], dst: [u8; 4], protocol: u8, len: u16| {
        let [high, low] = len.to_be_bytes();
        let mut header = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        header.extend(source);
        header.extend(dst);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        header
    };
    let (near, far) = ([10, 91, 0, 1], [10, 91, 0, 2]);
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 2, 88];
    icmp.extend(header(near, far, 17, 4140));
    icmp.extend(source_port.to_be_bytes());
    icmp.extend([0x12, 0xb7, 0x10, 0x18, 0, 0]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let mut packet = header([10, 91, 0, 77], near, 1, 20 + icmp.len() as u16);
    packet.extend(icmp);
    packet
}

/// A "packet too big" message with MTU 1280, without its checksum, which the kernel fills in.
fn forged_v6(source_port: u16) -> Vec<u8> {
    let mut icmp = vec![2, 0, 0, 0, 0, 0, 5, 0];
    icmp.extend([0x60, 0, 0, 0, 0x10, 0x18, 17, 64]);
    for address in [NEAR_LOCAL, FAR_LOCAL] {
        let address: std::net::Ipv6Addr = address.parse().expect("an address");
        icmp.extend(address.octets());
    }
    icmp.extend(source_port.to_be_bytes());
    icmp.extend([0x12, 0xb7, 0x10, 0x18, 0, 0]);
    icmp
}

/// Tells the near host that its path to the far host carries only short packets. The attacker does
/// not know the source port of a flow, so it tries all.
fn forge_path_mtu(pair: &Pair) {
    let scope = pair.far.index();
    pair.far.enter(|| {
        let raw = |domain, protocol: i32| {
            Socket::new(domain, Type::RAW, Some(Protocol::from(protocol))).expect("root may")
        };
        let v4 = raw(Domain::IPV4, libc::IPPROTO_RAW);
        let to_v4 = std::net::SocketAddr::new(NEAR, 0).into();
        let v6 = raw(Domain::IPV6, libc::IPPROTO_ICMPV6);
        let near = NEAR_LOCAL.parse().expect("an address");
        let to_v6 = std::net::SocketAddrV6::new(near, 0, 0, scope).into();
        for source_port in std::iter::once(4791).chain(0xc000..=0xffff) {
            v4.send_to(&forged_v4(source_port), &to_v4).expect("sent");
            v6.send_to(&forged_v6(source_port), &to_v6).expect("sent");
        }
    });
}

/// One ICMP message from anywhere had kept long packets from the path for ten minutes.
#[test]
fn a_forged_path_mtu_stops_no_packet() {
    let Some(pair) = Pair::new_or_skip() else {
        return;
    };
    for flow_sockets in [0, 128] {
        let near_config = UdpPortConfig {
            flow_sockets,
            ..pair.near_config()
        };
        let mut near = pair.near.enter(|| open_with(near_config));
        let far_config = pair.far_config();
        let mut far = pair.far.enter(|| open_with(far_config));
        let (near_local, far_local) = link_local();
        for (src, dst) in [(near_local, far_local), (NEAR, FAR)] {
            for attacked in [false, true] {
                for number in 0..20 {
                    send(&mut near, &to(src, dst), &packet(number, 4112));
                }
                assert!(near.flush().expect("the link is there"));
                let received = receive(&mut far, 20);
                for (number, got) in received.iter().enumerate() {
                    let what = format!("packet {number} to {dst}, attacked: {attacked}");
                    assert!(got.bytes == packet(number, 4112), "{what}");
                }
                forge_path_mtu(&pair);
            }
        }
        assert_eq!(near.counters().dropped_in_all(), 0);
    }
    let learned = pair.near.run("ip route get 10.91.0.2");
    assert!(
        learned.contains("mtu 600"),
        "the attack had no effect: {learned}"
    );
    let learned = pair.near.run("ip -6 route get fe80::2 oif near");
    assert!(
        learned.contains("mtu 1280"),
        "the attack had no effect: {learned}"
    );
}

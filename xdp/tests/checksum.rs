//! Tests UDP checksums of packets over IPv6, on veth pairs. An ordinary socket, which accepts only
//! packets with a correct checksum, verifies them. These tests need root.

mod support;

use std::net::UdpSocket;

use roce_port::Port;
use roce_wire::UDP_PORT;
use roce_xdp::program::AttachMode;
use roce_xdp::{Ipv6Checksum, XdpPort};
use support::ports::{assert_no_chunk_is_lost, config, from_to, open_with, send};
use support::{TIMEOUT, bytes, wait_for};
use testkit::veth::{End, Pair};

/// Odd and even, short and as long as the link allows.
const LENS: [usize; 5] = [16, 17, 272, 1039, 1452];

fn open(end: &End, mtu: usize, queues: u32, ipv6_checksum: Ipv6Checksum) -> XdpPort {
    let mut config = config(end, mtu, queues, AttachMode::Auto);
    config.ipv6_checksum = ipv6_checksum;
    open_with(end, config)
}

/// An ordinary UDP socket at one end, which receives RoCE packets as datagrams.
fn listen(end: &End) -> UdpSocket {
    let bind = || UdpSocket::bind((end.ip6, UDP_PORT)).expect("a free port");
    let socket = end.enter(bind);
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

fn counter(port: &XdpPort, name: &str) -> u64 {
    let all = port.each_counter();
    let found = all.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} in {all:?}")).1
}

/// Sends packets of all lengths, and checks that they arrive as datagrams.
fn all_lengths(pair: &Pair, port: &mut XdpPort, socket: &UdpSocket) {
    let to = from_to(&pair.near, &pair.far, true);
    for len in LENS {
        let packet = bytes(len, len);
        send(port, &to, &packet);
        // The first waits for its neighbour.
        assert_no_chunk_is_lost(port);
        let mut got = [0; 2000];
        let got_len = socket
            .recv(&mut got)
            .expect("a packet with a right checksum");
        assert!(got[..got_len] == packet);
    }
}

/// Checks that a socket of `far` receives packets with checksums. `offload` switches the checksum
/// offload of the interface on or off; a veth only pretends to have it.
fn checksums_are_right(offload: &str, queues: u32) {
    let Some(pair) = Pair::new_or_skip(1500, queues) else {
        return;
    };
    pair.near.run(&format!("ethtool -K near tx {offload}"));
    let socket = listen(&pair.far);
    let sent = LENS.len() as u64;
    for (who, theirs, ours) in [
        (Ipv6Checksum::Auto, sent, 0),
        (Ipv6Checksum::Software, 0, sent),
    ] {
        let mut port = open(&pair.near, 1500, queues, who);
        all_lengths(&pair, &mut port, &socket);
        let counted = ["tx_checksums", "tx_checksums_here"].map(|name| counter(&port, name));
        assert_eq!(counted, [theirs, ours], "{who:?}");
        assert_eq!(counter(&port, "kernel_tx_invalid_descs"), 0);
        // Packets over IPv4 carry no checksum.
        send(
            &mut port,
            &from_to(&pair.near, &pair.far, false),
            &bytes(1, 100),
        );
        assert_no_chunk_is_lost(&mut port);
        let counted = ["tx_checksums", "tx_checksums_here"].map(|name| counter(&port, name));
        assert_eq!(counted, [theirs, ours], "{who:?}");
    }
}

// shows: A17.3.2.4-checksum
#[test]
fn the_kernel_computes_checksums() {
    checksums_are_right("off", 2);
}

#[test]
fn an_interface_with_checksum_offload_computes_checksums() {
    checksums_are_right("on", 1);
}

/// An ordinary socket drops a packet over IPv6 without a checksum. Otherwise, the tests above would
/// prove nothing.
#[test]
fn an_ordinary_socket_drops_packets_without_a_checksum() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let socket = listen(&pair.far);
    let to = from_to(&pair.near, &pair.far, true);
    let mut without = open(&pair.near, 1500, 1, Ipv6Checksum::None);
    send(&mut without, &to, &bytes(1, 100));
    assert_no_chunk_is_lost(&mut without);
    let refused = || {
        let counters = pair.far.run("cat /proc/net/snmp6");
        let line = counters
            .lines()
            .find(|line| line.starts_with("Udp6InCsumErrors"));
        line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok())
    };
    wait_for("the packet is refused", || (refused()? == 1).then_some(()));
    socket.set_nonblocking(true).expect("a socket");
    assert!(socket.recv(&mut [0; 2000]).is_err());
}

/// Frames of several pieces have no space for metadata, so the port computes their checksums.
#[test]
fn the_port_computes_checksums_of_long_packets() {
    let mtu = 4300;
    let Some(pair) = Pair::new_or_skip(mtu, 1) else {
        return;
    };
    let socket = listen(&pair.far);
    let mut port = open(&pair.near, mtu, 1, Ipv6Checksum::Auto);
    let packet = bytes(7, 4112);
    send(&mut port, &from_to(&pair.near, &pair.far, true), &packet);
    assert_no_chunk_is_lost(&mut port);
    let mut got = [0; 5000];
    let len = socket
        .recv(&mut got)
        .expect("a packet with a right checksum");
    assert!(got[..len] == packet);
    assert_eq!(counter(&port, "tx_checksums_here"), 1);
    port.flush().expect("a port that works");
}

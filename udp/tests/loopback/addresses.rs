//! Tests a port with several addresses: activating, removing and polling them.

use std::net::{IpAddr, UdpSocket};

use roce_port::Port;
use roce_stack::{Flow, RxMeta, Transmit};
use roce_udp::{TxDrop, UdpPort, UdpPortConfig};
use roce_wire::Qpn;

use crate::pair;
use crate::support::{
    Received, loopback_config, open, open_with, packet, receive, receive_now, send, to,
};

#[test]
fn activation_errors_say_what_to_do() {
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
fn activating_twice_has_no_effect_and_addresses_can_be_removed() {
    let (near, far) = pair(10);
    let mut port = open_with(UdpPortConfig::new("lo", 1, 65536, vec![near, far]));
    port.activate(near).expect("again");
    assert_eq!(port.fds().len(), 2);
    send(&mut port, &to(near, far), b"kept");
    send(&mut port, &to(far, near), b"lost");
    assert_eq!(port.fds().filter(|fd| fd.wants_write).count(), 2);
    port.set_addresses(vec![near]);
    assert_eq!(port.counters().dropped(TxDrop::AddressGone), 1);
    // The socket of the address, and the socket of the flow whose packet waits.
    assert_eq!((port.fds().len(), port.queued()), (2, 1));
    assert!(
        port.reserve_run(&to(far, near), Flow::new(Qpn::QP0, Qpn::QP0), None, 4, 1)
            .is_err()
    );
    assert!(port.activate(far).is_err());
    // Its UDP port is free again.
    let mut other = open(far);
    assert!(port.flush().expect("loopback is there"));
    assert_eq!(receive(&mut other, 1)[0].bytes, b"kept");
    assert_eq!(port.fds().len(), 1);
    assert!(port.fds().all(|fd| !fd.wants_write));
}

#[test]
fn every_activated_address_receives() {
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
fn quiet_addresses_are_polled_while_another_is_busy() {
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

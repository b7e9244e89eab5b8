//! Tests datagrams from other programs, and the budget of `receive`.

use std::net::UdpSocket;

use roce_port::Port;
use roce_stack::{IpCovered, RxMeta};

use crate::pair;
use crate::support::{open, packet, receive, receive_now};

#[test]
fn any_datagram_from_any_sender_reaches_the_sink() {
    let (near, far) = pair(11);
    let mut port = open(near);
    let other_program = UdpSocket::bind((far, 0)).expect("any port");
    let other_port = other_program.local_addr().expect("bound").port();
    let mut lens: Vec<usize> = vec![0, 1, 0, 0, 65_507, 3, 12, 0, 65_507, 65_506, 1500];
    lens.extend(0..200);
    for (number, len) in lens.into_iter().enumerate() {
        let bytes = packet(number, len);
        other_program
            .send_to(&bytes, (near, 4791))
            .expect("loopback takes it");
        let got = receive(&mut port, 1);
        assert_eq!(got[0].meta.src_port, other_port);
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
fn receive_respects_the_budget_for_single_packets() {
    let (near, far) = pair(12);
    let (mut port, mut none) = (open(near), Vec::new());
    assert_eq!(receive_now(&mut port, &mut none), 0);
    let other_program = UdpSocket::bind((far, 0)).expect("any port");
    for number in 0..40 {
        other_program
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
    other_program
        .send_to(b"waits", (near, 4791))
        .expect("loopback takes it");
    assert_eq!(port.receive(0, &mut sink).expect("a port that works"), 0);
}

//! What arrives from programs other than ours, and what a call of `receive` takes of it.

use std::net::UdpSocket;

use roce_port::Port;
use roce_stack::{IpCovered, RxMeta};

use crate::pair;
use crate::support::{open, packet, receive, receive_now};

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

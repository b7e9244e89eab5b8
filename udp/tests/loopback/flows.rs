//! Tests that flows have sockets of their own, and that long datagrams leave without a copy.

use std::net::{IpAddr, UdpSocket};
use std::num::NonZeroU64;

use roce_port::Port;
use roce_stack::{Acknowledged, Flow, IpCovered, Position, Sequenced, Transmit};
use roce_udp::{UdpPort, UdpPortConfig, UdpSplice};
use roce_wire::Qpn;

use super::support::{loopback_config, open, open_with, packet, receive, to};
use super::{exchange, pair};

const LEN: usize = 4112;

fn qpn(number: u32) -> Qpn {
    Qpn::new(number).expect("24 bits")
}

fn flow(number: u32) -> Flow {
    Flow::new(qpn(number), qpn(0x100))
}

fn position(number: usize) -> Position {
    Position(NonZeroU64::new(number as u64 + 1).expect("not 0"))
}

/// A port that sends every datagram without a copy, and keeps at most `kept` bytes.
fn splicing(address: IpAddr, kept: usize) -> UdpPort {
    open_with(UdpPortConfig {
        splice: UdpSplice::From(0),
        kept_bytes: kept,
        ..loopback_config(address)
    })
}

/// Queues packet `number` of a flow. Returns its source port, and whether its memory is kept.
fn queue(
    port: &mut UdpPort,
    (near, far): (IpAddr, IpAddr),
    flow: Flow,
    number: usize,
    is_retransmission: bool,
) -> (u16, bool) {
    let sequenced = Some(Sequenced {
        position: position(number),
        is_retransmission,
    });
    let slot = port
        .reserve_run(&to(near, far), flow, sequenced, LEN, 1)
        .expect("room for the packet");
    slot.bytes.copy_from_slice(&packet(number, LEN));
    let queued = (slot.src_port, slot.kept);
    port.commit();
    queued
}

#[test]
fn each_flow_has_its_source_port_and_management_datagrams_have_4791() {
    let (near, far) = pair(30);
    let (mut from, mut into) = (open(near), open(far));
    for number in 2..10 {
        let (source_port, _) = queue(&mut from, (near, far), flow(number), 0, false);
        assert_eq!(source_port, flow(number).source_port(0));
        assert!(from.flush().expect("loopback is there"));
        assert_eq!(receive(&mut into, 1)[0].meta.src_port, source_port);
    }
    let to_qp1 = Flow::new(qpn(1), Qpn::QP1);
    let slot = from.reserve_run(&to(near, far), to_qp1, None, LEN, 1);
    assert_eq!(slot.expect("room").src_port, 4791);
    assert_eq!(from.counters().tx_flows_opened, 8);
}

#[test]
fn a_source_port_in_use_is_replaced_by_the_next() {
    let (near, far) = pair(31);
    let wanted = flow(7).source_port(0);
    let _theirs = UdpSocket::bind((near, wanted)).expect("a free port");
    let (mut from, mut into) = (open(near), open(far));
    let (source_port, _) = queue(&mut from, (near, far), flow(7), 0, false);
    assert_eq!(source_port, (wanted + 1) | 0xc000);
    assert!(from.flush().expect("loopback is there"));
    assert_eq!(receive(&mut into, 1)[0].meta.src_port, source_port);
}

/// The flows without a socket of their own share the socket of the address.
#[test]
fn more_flows_than_sockets_work() {
    let (near, far) = pair(32);
    for sockets in [0, 3, 4, 16] {
        let mut from = open_with(UdpPortConfig {
            flow_sockets: sockets,
            ..loopback_config(near)
        });
        let mut into = open(far);
        let mut own = 0;
        for number in 0..60 {
            let (source_port, kept) = queue(&mut from, (near, far), flow(number), 0, false);
            own += usize::from(source_port != 4791);
            assert!(!kept || source_port != 4791);
        }
        assert!(from.flush().expect("loopback is there"));
        let received = receive(&mut into, 60);
        assert!(received.iter().all(|got| got.bytes == packet(0, LEN)));
        let opened = from.counters().tx_flows_opened;
        assert_eq!((opened, own), (sockets as u64, sockets));
    }
}

/// A flow that finds all sockets in use does without, until one of them has been idle for long.
#[test]
fn a_flow_in_use_keeps_its_socket() {
    const SOCKETS: u32 = 4;
    let (near, far) = pair(39);
    let mut from = open_with(UdpPortConfig {
        flow_sockets: SOCKETS as usize,
        ..loopback_config(near)
    });
    let mut into = open(far);
    let mut send = |from: &mut UdpPort, number| {
        let (source_port, _) = queue(from, (near, far), flow(number), 0, false);
        assert!(from.flush().expect("loopback is there"));
        let received = receive(&mut into, 1);
        assert_eq!(received[0].meta.src_port, source_port);
        source_port
    };
    let ports: Vec<u16> = (0..SOCKETS).map(|number| send(&mut from, number)).collect();
    assert!(ports.iter().all(|port| *port != 4791), "{ports:?}");
    for _ in 0..3 {
        assert_eq!(send(&mut from, SOCKETS), 4791);
        for (number, port) in (0..).zip(&ports) {
            assert_eq!(send(&mut from, number), *port);
        }
    }
    let counters = from.counters();
    assert_eq!(counters.tx_flows_opened, u64::from(SOCKETS));
    assert_eq!(counters.tx_flows_full, 3);
    for _ in 0..20_000 {
        assert!(from.flush().expect("loopback is there"));
    }
    assert_ne!(send(&mut from, SOCKETS), 4791);
}

/// The receiver reads late, so that the kernel holds references to all the packets.
#[test]
fn kept_packets_stay_until_they_are_acknowledged() {
    let (near, far) = pair(33);
    let (mut from, mut into) = (splicing(near, 4 << 16), open(far));
    let mut kept = 0;
    for number in 0..24 {
        kept += usize::from(queue(&mut from, (near, far), flow(1), number, false).1);
        if number % 2 == 1 {
            assert!(from.flush().expect("loopback is there"));
        }
    }
    assert_eq!(kept, 8, "two packets in each of four blocks");
    assert_eq!(from.counters().tx_spliced_bytes, 8 * LEN as u64);
    assert_eq!(from.counters().tx_splice_refused, 0);
    for (number, got) in receive(&mut into, 24).iter().enumerate() {
        assert!(got.bytes == packet(number, LEN), "packet {number}");
    }
    from.acknowledged(flow(1), Acknowledged::Before(position(3)));
    assert!(queue(&mut from, (near, far), flow(1), 24, false).1);
    assert!(
        queue(&mut from, (near, far), flow(1), 25, false).1,
        "joins it"
    );
    assert!(from.flush().expect("loopback is there"));
    assert!(
        !queue(&mut from, (near, far), flow(1), 26, false).1,
        "none is left"
    );
    assert!(from.flush().expect("loopback is there"));
    for (number, got) in receive(&mut into, 3).iter().enumerate() {
        assert!(
            got.bytes == packet(24 + number, LEN),
            "packet {}",
            24 + number
        );
    }
}

/// The packets of a run arrive as those that are reserved one by one, and their memory is kept until
/// the last one is acknowledged.
#[test]
fn a_run_stays_until_its_last_packet_is_acknowledged() {
    let (near, far) = pair(38);
    let (mut from, mut into) = (splicing(near, 1 << 16), open(far));
    let sequenced = Some(Sequenced {
        position: position(0),
        is_retransmission: false,
    });
    let slot = from
        .reserve_run(&to(near, far), flow(1), sequenced, LEN, 3)
        .expect("room for packets");
    let count = slot.bytes.len() / LEN;
    assert!(slot.kept && count > 1, "{count} packets");
    for (number, bytes) in slot.bytes.chunks_exact_mut(LEN).enumerate() {
        bytes.copy_from_slice(&packet(number, LEN));
    }
    from.commit();
    assert!(from.flush().expect("loopback is there"));
    for (number, got) in receive(&mut into, count).iter().enumerate() {
        assert!(got.bytes == packet(number, LEN), "packet {number}");
    }
    assert_eq!(from.counters().tx_datagrams, 1);
    for (acknowledged, blocks) in [(count - 1, 1), (count, 0)] {
        from.acknowledged(flow(1), Acknowledged::Before(position(acknowledged)));
        assert_eq!(from.kept_blocks(), blocks, "{acknowledged} of {count}");
    }
}

/// Shows that the packets are sent by reference, and that reusing the memory too early is noticed.
#[test]
fn a_false_acknowledgement_corrupts_the_packet() {
    let (near, far) = pair(34);
    let (mut from, mut into) = (splicing(near, 1 << 16), open(far));
    assert!(queue(&mut from, (near, far), flow(1), 0, false).1);
    assert!(from.flush().expect("loopback is there"));
    from.acknowledged(flow(1), Acknowledged::Before(position(1)));
    assert!(queue(&mut from, (near, far), flow(1), 1, false).1);
    let got = receive(&mut into, 1);
    assert!(
        got[0].bytes != packet(0, LEN),
        "this kernel copies what is spliced"
    );
}

/// The acknowledgement may be for the retransmission, and the end of a flow proves nothing about
/// its packets.
#[test]
fn without_proof_the_receiver_keeps_the_pages() {
    let (near, far) = pair(35);
    for ends in [false, true] {
        let (mut from, mut into) = (splicing(near, 1 << 16), open(far));
        assert!(queue(&mut from, (near, far), flow(1), 0, false).1);
        assert!(from.flush().expect("loopback is there"));
        let which = if ends {
            Acknowledged::All
        } else {
            assert!(!queue(&mut from, (near, far), flow(1), 0, true).1, "a copy");
            assert!(from.flush().expect("loopback is there"));
            Acknowledged::Before(position(1))
        };
        from.acknowledged(flow(1), which);
        assert!(queue(&mut from, (near, far), flow(1), 1, false).1);
        assert!(from.flush().expect("loopback is there"));
        let sent: &[usize] = if ends { &[0, 1] } else { &[0, 0, 1] };
        for (got, &number) in receive(&mut into, sent.len()).iter().zip(sent) {
            assert!(
                got.bytes == packet(number, LEN),
                "packet {number}, {which:?}"
            );
        }
    }
}

/// An acknowledgement that comes before the packets are read must not reveal another process's
/// data.
#[test]
fn pages_are_not_passed_from_one_reader_to_the_next() {
    let (near, far) = pair(36);
    let other = IpAddr::from([127, 101, 36, 3]);
    let (mut from, mut into) = (splicing(near, 1 << 16), open(far));
    assert!(queue(&mut from, (near, far), flow(1), 0, false).1);
    assert!(from.flush().expect("loopback is there"));
    from.acknowledged(flow(1), Acknowledged::Before(position(1)));
    let secret = queue(&mut from, (near, other), flow(2), 1, false);
    assert!(secret.1, "the block is free");
    let got = receive(&mut into, 1);
    assert!(
        got[0].bytes == packet(0, LEN) || got[0].bytes.iter().all(|&byte| byte == 0xdb),
        "neither what was sent nor poison"
    );
}

#[test]
fn identifications_count_up_also_for_datagrams_without_a_copy() {
    let (near, far) = pair(37);
    let (mut from, mut into) = (splicing(near, 1 << 20), open(far));
    let mut first = None;
    for number in 0..40_usize {
        let sequenced = Some(Sequenced {
            position: position(number),
            is_retransmission: false,
        });
        let len = if number % 3 == 0 { 60 } else { LEN };
        let slot = from
            .reserve_run(&to(near, far), flow(1), sequenced, len, 1)
            .expect("room");
        slot.bytes.fill(1);
        let IpCovered::V4 { id, .. } = slot.ip else {
            panic!("IPv4 has an identification");
        };
        from.commit();
        assert!(from.flush().expect("loopback is there"));
        assert_eq!(id, first.get_or_insert(id).wrapping_add(number as u16));
    }
    assert_eq!(receive(&mut into, 40).len(), 40);
    assert_eq!(from.counters().tx_wrong_ids, 0);
}

#[test]
fn every_mix_of_lengths_arrives_without_copies() {
    let (near, far) = pair(38);
    let (mut from, mut into) = (splicing(near, 8 << 20), open(far));
    for lens in [
        &[1_usize, 65_507, 2, 4112, 4112, 100][..],
        &[1040; 70],
        &[9000; 20],
    ] {
        exchange(&mut from, Some(&mut into), &to(near, far), lens);
    }
}

/// Who knows both QPNs can't derive the source port, and flows still differ.
#[test]
fn a_secret_changes_every_source_port() {
    let (near, far) = pair(45);
    let secret = 0x1234;
    let mut from = open_with(UdpPortConfig {
        source_port_secret: secret,
        ..loopback_config(near)
    });
    for number in 2..10 {
        let (source_port, _) = queue(&mut from, (near, far), flow(number), 0, false);
        assert_eq!(source_port, flow(number).source_port(0) ^ secret);
        assert!(source_port >= 0xc000);
    }
}

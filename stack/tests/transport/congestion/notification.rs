//! The receiver of marked packets informs their sender, and not too often.

use crate::sim::{Hand, Ip, Mem, PEER_QPN, Setup};
use roce_stack::{DropReason, Duration, NotificationPoint, QpAttributes, QpKind, Stat};
use roce_wire::{ExtHeaders, Opcode, PKey, Packet};

/// A WRITE of 8 bytes from the peer, with this traffic class.
fn write(hand: &mut Hand, mem: &Mem, traffic_class: u8) {
    let opcode = match hand.setup.kind {
        QpKind::Uc => Opcode::UC_WRITE_ONLY,
        _ => Opcode::RC_WRITE_ONLY,
    };
    let bth = hand.bth(opcode, hand.psn);
    hand.psn += 1;
    let mut meta = hand.meta();
    meta.traffic_class = traffic_class;
    hand.deliver_from(meta, bth, mem.reth(0, 8), &[1; 8]);
}

fn cnps(hand: &mut Hand) -> usize {
    let out = hand.out();
    out.iter().filter(|p| p.opcode() == Opcode::CNP).count()
}

/// A CNP leaves first, in a class of its own, where no switch marks it, and has no PSN.
// shows: CA17-44-cnp-sent, A17.9.3-cnp-reserved, A17.9.3-cnp-fields, A17.4.8-becn
#[test]
fn a_mark_is_answered_before_anything_else() {
    for (kind, packets) in [(QpKind::Rc, 2), (QpKind::Uc, 1)] {
        for ip in Ip::ROCE_V2 {
            let mut hand = Hand::new(Setup {
                kind,
                ip,
                ..Setup::default()
            });
            let mem = hand.mem(8);
            write(&mut hand, &mem, 0x03);
            assert_eq!(mem.read(0, 8), [1; 8], "{kind:?}: it was taken");
            assert!(hand.node.nic.wants_to_send());
            hand.node.nic.transmit(hand.now, &mut hand.node.port);
            let out = &hand.node.port.out;
            assert_eq!(out.len(), packets, "{kind:?}, {ip:?}");
            let packet = Packet::parse(&out[0].bytes).expect("well-formed");
            assert_eq!(packet.bth.opcode, Opcode::CNP);
            assert_eq!(packet.bth.dest_qpn, PEER_QPN);
            assert_eq!(packet.bth.psn.get(), 0);
            assert!(packet.bth.becn && !packet.bth.fecn && !packet.bth.ack_req);
            assert!(!packet.bth.solicited && !packet.bth.mig_req);
            assert_eq!(out[0].bytes[12..28], [0; 16]);
            assert_eq!(out[0].meta.traffic_class, 48 << 2);
            assert_eq!(hand.stat(Stat::CnpsSent), 1);
        }
    }
}

/// A full member's peer may be a limited member. The CNP has the peer's own key, which the peer
/// would accept in no other packet.
// shows: A17.9.3-cnp-fields
#[test]
fn a_cnp_has_the_partition_key_of_the_marked_packet() {
    for key in [0xffff, 0x7fff] {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(8);
        let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
        bth.pkey = PKey(key);
        let mut meta = hand.meta();
        meta.traffic_class = 3;
        hand.deliver_from(meta, bth, mem.reth(0, 8), &[1; 8]);
        let out = hand.out();
        assert_eq!(out[0].opcode(), Opcode::CNP);
        assert_eq!(out[0].bth.pkey, PKey(key));
    }
}

/// A limited member accepts a CNP with its own key.
// shows: A17.9.3-cnp-taken
#[test]
fn a_limited_member_accepts_cnps() {
    let mut hand = Hand::in_reset(Setup::default());
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    let init = QpAttributes {
        pkey: Some(PKey(0x7fff)),
        ..hand.setup.init()
    };
    for attributes in [
        init,
        hand.setup.rtr(hand.setup.path(), PEER_QPN, hand.psn),
        hand.setup.rts(hand.setup.psn[0]),
    ] {
        nic.modify_qp(hand.now, qpn, &attributes).expect("legal");
    }
    for (key, accepted) in [(0x7fff, 1), (0xffff, 2), (0x7ffe, 2)] {
        let mut bth = hand.bth(Opcode::CNP, 0);
        bth.pkey = PKey(key);
        hand.deliver(bth, ExtHeaders::NONE, &[]);
        assert_eq!(hand.stat(Stat::CnpsReceived), accepted, "{key:#x}");
    }
    assert_eq!(hand.drops(DropReason::WrongPKey), 1);
}

// shows: CA17-44-cnp-sent
#[test]
fn one_in_50_microseconds_is_enough() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let mut sent = 0;
    for (after_us, expected) in [(0, 1), (0, 0), (1, 0), (48, 0), (1, 1), (49, 0), (1, 1)] {
        hand.now = hand.now + Duration::from_micros(after_us);
        write(&mut hand, &mem, 0x03);
        assert_eq!(cnps(&mut hand), expected);
        sent += expected as u64;
    }
    assert_eq!(hand.stat(Stat::CnpsSent), sent);
    assert_eq!(hand.stat(Stat::CnpsSuppressed), 7 - sent);
    // Two marked packets before the first CNP has left count as one.
    hand.now = hand.now + Duration::from_micros(50);
    write(&mut hand, &mem, 0x03);
    write(&mut hand, &mem, 0x03);
    assert_eq!(cnps(&mut hand), 1);
}

/// New settings take effect from the next mark on.
#[test]
fn how_often_and_in_which_class_can_be_set() {
    let mut hand = Hand::new(Setup::default());
    hand.node.nic.set_notification_point(NotificationPoint {
        cnp_dscp: 46,
        min_time_between_cnps: Duration::from_micros(4),
    });
    let mem = hand.mem(8);
    for expected in [1, 0, 1, 0] {
        write(&mut hand, &mem, 0x03);
        hand.node.nic.transmit(hand.now, &mut hand.node.port);
        for frame in &hand.node.port.out {
            let packet = Packet::parse(&frame.bytes).expect("well-formed");
            let is_cnp = packet.bth.opcode == Opcode::CNP;
            assert_eq!(frame.meta.traffic_class == 46 << 2, is_cnp);
        }
        assert_eq!(cnps(&mut hand), expected);
        hand.now = hand.now + Duration::from_micros(2);
    }
}

/// RoCEv1 has no CNPs, whatever the bits in its header.
#[test]
fn no_mark_is_answered_over_roce_v1() {
    let mut hand = Hand::new(Setup {
        ip: Ip::Grh,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    write(&mut hand, &mem, 0x03);
    assert_eq!(mem.read(0, 8), [1; 8]);
    assert_eq!(cnps(&mut hand), 0);
}

/// The IP header has the marks. The bits of the BTH belong to InfiniBand's congestion control, which
/// RoCEv2 does not use.
// shows: CA17-29-congestion-bits
#[test]
fn marks_in_the_bth_mean_nothing() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    (bth.fecn, bth.becn) = (true, true);
    hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    assert_eq!(mem.read(0, 8), [1; 8]);
    let answer = hand.out_one();
    assert_eq!(answer.opcode(), Opcode::RC_ACKNOWLEDGE);
    assert!(!answer.bth.fecn && !answer.bth.becn);
    let counted = [Stat::EcnMarked, Stat::CnpsSent, Stat::CnpsReceived].map(|stat| hand.stat(stat));
    assert_eq!(counted, [0; 3]);
    let congestion = hand.node.nic.qp_congestion(hand.now, hand.node.qpn);
    assert_eq!(congestion.expect("a QP").rate, None);
}

/// A full port delays the CNP; it is not lost, and no packet overtakes it.
#[test]
fn a_full_port_delays_it() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.node.port.max_queued = 0;
    write(&mut hand, &mem, 0x03);
    hand.node.nic.transmit(hand.now, &mut hand.node.port);
    assert_eq!(hand.node.port.out.len(), 0);
    assert!(hand.node.nic.wants_to_send());
    hand.node.port.max_queued = 1;
    assert_eq!(hand.out_one().opcode(), Opcode::CNP);
}

/// Strangers get no CNP, an unmarked packet causes none, and a CNP causes no other CNP.
#[test]
fn only_marked_packets_of_the_peer_are_answered() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    for traffic_class in [0, 1, 2] {
        write(&mut hand, &mem, traffic_class);
    }
    let mut meta = hand.meta();
    meta.traffic_class = 3;
    let cnp = hand.bth(Opcode::CNP, 0);
    hand.deliver_from(meta, cnp, ExtHeaders::NONE, &[]);
    meta.src = hand.setup.ip.address(3);
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    hand.deliver_from(meta, bth, mem.reth(0, 8), &[1; 8]);
    assert_eq!(cnps(&mut hand), 0);
    assert_eq!(hand.stat(Stat::CnpsSent), 0);
    assert_eq!(hand.stat(Stat::EcnMarked), 2);
}

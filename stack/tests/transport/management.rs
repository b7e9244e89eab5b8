//! QP1: management datagrams (IBTA 1.7, 13.4 and 13.5).

use crate::sim::{Hand, Ip, Setup, frame};
use roce_stack::{DropReason, MAD_BYTES, MadError, QpState, Stat, TxMeta};
use roce_wire::{Bth, Deth, ExtHeaders, ImmDt, Opcode, PKey, Psn, QKey, Qpn};
use testkit::Dice;

/// The capacity of the inbox.
const ROOM: usize = 256;

fn open(ip: Ip) -> Hand {
    let mut hand = Hand::new(Setup {
        ip,
        ..Setup::default()
    });
    hand.node.nic.open_general_services();
    hand
}

fn bth() -> Bth {
    Bth::new(Opcode::UD_SEND_ONLY, Qpn::QP1, Psn::new(9))
}

fn deth(qkey: QKey) -> ExtHeaders {
    ExtHeaders {
        deth: Some(Deth {
            qkey,
            src_qpn: Qpn::QP1,
        }),
        ..ExtHeaders::NONE
    }
}

fn mad(number: u8) -> [u8; MAD_BYTES] {
    std::array::from_fn(|index| number ^ index as u8)
}

/// The packet caused only the one drop, and the next valid one is accepted.
#[track_caller]
fn assert_dropped(mut hand: Hand, reason: DropReason) {
    assert_eq!(hand.drops(reason), 1, "{:?}", hand.node.nic.counters());
    assert_eq!(hand.node.nic.counters().total_drops(), 1);
    assert!(!hand.node.nic.has_mads());
    assert!(hand.out().is_empty(), "no answer");
    assert_eq!(hand.state(), QpState::Rts);
    hand.deliver(bth(), deth(QKey::QP1), &mad(1));
    assert_eq!(hand.node.nic.poll_mad().map(|got| got.mad), Some(mad(1)));
}

/// From any sender, over each kind of network, with the path back.
// shows: 10.2.7-special-qps, 13.5.1-taken
#[test]
fn a_datagram_is_taken_with_the_path_back() {
    for ip in Ip::ALL {
        let mut hand = open(ip);
        let mut meta = hand.meta();
        (meta.src, meta.traffic_class) = (ip.address(77), 0x6b);
        hand.deliver_from(meta, bth(), deth(QKey::QP1), &mad(5));
        assert!(hand.node.nic.has_mads());
        let got = hand.node.nic.poll_mad().expect("it was taken");
        assert_eq!((got.src_qpn, got.mad), (Qpn::QP1, mad(5)));
        let back = TxMeta {
            src: ip.address(1),
            dst: ip.address(77),
            traffic_class: 0x68,
            hop_limit: 0,
            version: ip.version(),
        };
        assert_eq!(got.path, back);
        assert!(!hand.node.nic.has_mads());
        assert_eq!(hand.node.nic.poll_mad(), None);
        assert_eq!(hand.node.nic.counters().total_drops(), 0);
        let counted = [Stat::RxPackets, Stat::RxMads, Stat::RxBytes].map(|stat| hand.stat(stat));
        assert_eq!(counted, [1, 1, 0]);
        assert!(hand.out().is_empty());
    }
}

// shows: 13.5.1-key
#[test]
fn the_wrong_key() {
    for qkey in [0, 0x8001_0001, 0x0001_0000, 0x8000_0000] {
        let mut hand = open(Ip::V4);
        hand.deliver(bth(), deth(QKey(qkey)), &mad(1));
        assert_dropped(hand, DropReason::WrongQKey);
    }
}

/// QP1 is in all partitions of the port, and the port in the default one; as a full member it
/// accepts packets of limited ones.
// shows: 13.5.1-partition
#[test]
fn the_wrong_partition() {
    for pkey in [0, 0x8000, 0x8001, 0x7ffe] {
        let mut hand = open(Ip::V4);
        let bth = Bth {
            pkey: PKey(pkey),
            ..bth()
        };
        hand.deliver(bth, deth(QKey::QP1), &mad(1));
        assert_dropped(hand, DropReason::WrongPKey);
    }
    let mut hand = open(Ip::V4);
    let limited = PKey(0x7fff);
    hand.deliver(
        Bth {
            pkey: limited,
            ..bth()
        },
        deth(QKey::QP1),
        &mad(1),
    );
    assert!(hand.node.nic.has_mads());
}

// shows: CA17-33-qp0
#[test]
fn the_wrong_number() {
    for number in [Qpn::QP0, Qpn::from_bits(2)] {
        let mut hand = open(Ip::V4);
        let bth = Bth::new(Opcode::UD_SEND_ONLY, number, Psn::new(9));
        hand.deliver(bth, deth(QKey::QP1), &mad(1));
        assert_dropped(hand, DropReason::UnknownQp);
    }
}

// shows: 13.4.2-length
#[test]
fn the_wrong_length() {
    for len in [0, 24, 252, 255, 257, 260, 512, 4096] {
        let mut hand = open(Ip::V6);
        hand.deliver(bth(), deth(QKey::QP1), &vec![7; len]);
        assert_dropped(hand, DropReason::BadLength);
    }
}

// shows: 13.5.1-silent
#[test]
fn packets_of_other_services_are_not_answered() {
    for opcode in [
        Opcode::RC_SEND_ONLY,
        Opcode::RC_SEND_MIDDLE,
        Opcode::UC_SEND_ONLY,
        Opcode::UC_SEND_FIRST,
    ] {
        let mut hand = open(Ip::V4);
        hand.deliver(Bth { opcode, ..bth() }, ExtHeaders::NONE, &mad(1));
        assert_dropped(hand, DropReason::WrongTransport);
    }
}

/// Immediate data is ignored.
#[test]
fn immediate_data_is_passed_over() {
    let mut hand = open(Ip::V4);
    let opcode = Opcode::UD_SEND_ONLY_WITH_IMMEDIATE;
    let ext = ExtHeaders {
        imm: Some(ImmDt(3)),
        ..deth(QKey::QP1)
    };
    hand.deliver(Bth { opcode, ..bth() }, ext, &mad(1));
    assert_eq!(hand.node.nic.poll_mad().map(|got| got.mad), Some(mad(1)));
}

// shows: 9.8.3-multicast-number
#[test]
fn what_a_group_is_sent_is_not_for_it() {
    let mut hand = open(Ip::V4);
    let mut meta = hand.meta();
    meta.dst = [224, 0, 0, 1].into();
    hand.deliver_from(meta, bth(), deth(QKey::QP1), &mad(1));
    assert_dropped(hand, DropReason::NoGroup);
}

/// The inbox is bounded; further datagrams are dropped and counted, and the oldest stay.
// shows: 13.5.1-bounded
#[test]
fn a_full_inbox_drops_what_comes() {
    let mut hand = open(Ip::V4);
    for number in 0..ROOM + 10 {
        hand.deliver(bth(), deth(QKey::QP1), &mad(number as u8));
    }
    assert_eq!(hand.drops(DropReason::MadsFull), 10);
    for number in 0..ROOM {
        let got = hand.node.nic.poll_mad().expect("it waits");
        assert_eq!(got.mad, mad(number as u8));
    }
    assert_eq!(hand.node.nic.poll_mad(), None);
    hand.deliver(bth(), deth(QKey::QP1), &mad(1));
    assert!(hand.node.nic.has_mads());
}

// shows: 13.5.1-taken
// trap: probes-to-qp1
#[test]
fn a_closed_qp1_takes_nothing() {
    let mut hand = Hand::new(Setup::default());
    hand.deliver(bth(), deth(QKey::QP1), &mad(1));
    assert_eq!(hand.drops(DropReason::UnknownQp), 1);
    let nic = &mut hand.node.nic;
    let path = to(Ip::V4, 2);
    assert_eq!(nic.send_mad(path, &mad(1)), Err(MadError::NotOpen));
    nic.open_general_services();
    nic.send_mad(path, &mad(1)).expect("room");
    nic.close_general_services();
    assert!(!nic.wants_to_send());
    hand.deliver(bth(), deth(QKey::QP1), &mad(1));
    assert_eq!(hand.drops(DropReason::UnknownQp), 2);
    assert_eq!(hand.node.nic.poll_mad(), None);
}

fn to(ip: Ip, host: u8) -> TxMeta {
    TxMeta {
        src: ip.address(1),
        dst: ip.address(host),
        traffic_class: 0,
        hop_limit: 0,
        version: ip.version(),
    }
}

/// A SEND from QP1 to QP1 in the default partition; its PSN advances with any destination.
// shows: 13.5.1-sent, A16-default-pkey
#[test]
fn datagrams_leave_with_the_key_and_the_number() {
    for ip in Ip::ALL {
        let mut hand = open(ip);
        for number in 0..3 {
            let sent = hand.node.nic.send_mad(to(ip, number + 2), &mad(number));
            sent.expect("room");
        }
        assert!(hand.node.nic.wants_to_send() && !hand.node.nic.wants_only_to_acknowledge());
        let out = hand.out();
        assert_eq!(out.len(), 3);
        assert!(!hand.node.nic.wants_to_send());
        let first = out[0].psn();
        for (number, out) in (0..).zip(&out) {
            assert_eq!(out.opcode(), Opcode::UD_SEND_ONLY);
            assert_eq!((out.bth.dest_qpn, out.bth.pkey), (Qpn::QP1, PKey(0xffff)));
            assert_eq!(out.bth.psn, Psn::new(first.wrapping_add(u32::from(number))));
            assert!(!out.bth.ack_req);
            let deth = out.ext.deth.expect("DETH");
            assert_eq!((deth.qkey, deth.src_qpn), (QKey(0x8001_0000), Qpn::QP1));
            assert_eq!(out.payload, mad(number));
        }
        let counted = [Stat::TxPackets, Stat::TxMads, Stat::TxBytes].map(|stat| hand.stat(stat));
        assert_eq!(counted, [3, 3, 0]);
    }
}

/// A port without room takes them later, in order; the outbox is bounded.
#[test]
fn datagrams_wait_for_the_port() {
    let mut hand = open(Ip::V4);
    hand.node.port.max_queued = 1;
    for number in 0..ROOM {
        let sent = hand.node.nic.send_mad(to(Ip::V4, 2), &mad(number as u8));
        sent.expect("room");
    }
    let refused = hand.node.nic.send_mad(to(Ip::V4, 2), &mad(0));
    assert_eq!(refused, Err(MadError::Full { max: ROOM }));
    for number in 0..ROOM {
        assert_eq!(hand.out_one().payload, mad(number as u8));
    }
    assert!(!hand.node.nic.wants_to_send());
}

/// Datagrams that the port can never send are counted, and don't block others.
#[test]
fn what_cannot_be_sent_is_counted() {
    let mut hand = open(Ip::V4);
    for unsendable in [true, false] {
        hand.node.port.unsendable = unsendable;
        let sent = hand.node.nic.send_mad(to(Ip::V4, 2), &mad(1));
        sent.expect("room");
        assert_eq!(hand.out().len(), usize::from(!unsendable));
    }
    assert_eq!(hand.stat(Stat::Unsendable), 1);
    assert_eq!(
        (hand.stat(Stat::TxPackets), hand.stat(Stat::TxMads)),
        (1, 1)
    );
}

/// Any bytes behind valid headers, and nearly valid headers before them: other QPs are not
/// affected, and nothing is answered.
#[test]
fn hostile_datagrams_do_no_harm() {
    let mut dice = Dice::new(11);
    let mut hand = open(Ip::V4);
    for _ in 0..20_000 {
        let len = dice.pick(&[0, 255, 256, 256, 256, 257]);
        let payload: Vec<u8> = (0..len).map(|_| dice.byte()).collect();
        let opcode = dice.pick(&[
            Opcode::UD_SEND_ONLY,
            Opcode::UD_SEND_ONLY,
            Opcode::UD_SEND_ONLY_WITH_IMMEDIATE,
            Opcode::RC_SEND_ONLY,
        ]);
        let mut packet = frame(
            hand.meta(),
            Bth { opcode, ..bth() },
            deth(QKey::QP1),
            &payload,
        );
        if dice.one_in(4) {
            let at = dice.below(packet.bytes.len());
            packet.bytes[at] ^= 1 << dice.below(8);
        }
        hand.node.nic.receive(hand.now, &packet.meta, &packet.bytes);
        if dice.one_in(100) {
            while hand.node.nic.poll_mad().is_some() {}
        }
    }
    assert!(hand.out().is_empty());
    assert_eq!(hand.state(), QpState::Rts);
    assert_eq!(hand.node.nic.next_timeout(), None);
}

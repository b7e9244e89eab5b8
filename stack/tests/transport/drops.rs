//! Dropped packets: each is counted with its reason and has no effect (IBTA 1.7, 9.6; RoCEv2 Annex
//! A17.3.4).

use crate::sim::hand::{frame, seal};
use crate::sim::{Hand, Ip, Mem, PEER_QPN, Setup, to_state};
use roce_stack::{DropReason, IpCovered, QpState, RxMeta, SendOp, Stat};
use roce_wire::{Bth, ExtHeaders, Opcode, PKey, Psn, Qpn};

/// A NIC with memory that a valid WRITE would change, and that WRITE.
fn target(setup: Setup) -> (Hand, Mem, Bth, ExtHeaders) {
    let mut hand = Hand::new(setup);
    let mem = hand.mem(64);
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    let ext = mem.reth(0, 8);
    (hand, mem, bth, ext)
}

/// The packet was counted as `reason`, and nothing else has changed: a valid WRITE that is
/// delivered after it is still the next.
fn assert_dropped(mut hand: Hand, mem: &Mem, reason: DropReason) {
    assert_eq!(hand.drops(reason), 1, "{:?}", hand.node.nic.counters());
    assert_eq!(hand.node.nic.counters().total_drops(), 1);
    assert!(hand.out().is_empty(), "no answer");
    assert_eq!(mem.read(0, 64), [0; 64]);
    assert!(hand.node.sent().is_empty() && hand.node.received().is_empty());
    assert!(hand.node.events.is_empty());
    assert_eq!(hand.state(), QpState::Rts);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[9; 8]);
    assert_eq!(mem.read(0, 8), [9; 8]);
}

/// A QP accepts packets from its peer only: another source, or another of the NIC's own addresses,
/// is refused, even if everything else is right (ReDMArk, USENIX Security 2021).
// shows: 9.6.1-source, 9.6.1-destination, 9.6.1-no-answer
// trap: predictable-numbers
#[test]
fn packets_from_others_than_the_peer_are_dropped() {
    for ip in Ip::ALL {
        for other_source in [true, false] {
            let setup = Setup {
                ip,
                ..Setup::default()
            };
            let (mut hand, mem, bth, ext) = target(setup);
            let mut meta = hand.meta();
            if other_source {
                meta.src = ip.address(3);
            } else {
                meta.dst = ip.address(3);
            }
            hand.deliver_from(meta, bth, ext, &[1; 8]);
            assert_dropped(hand, &mem, DropReason::WrongPeer);
        }
    }
}

/// The peer's other kind of GID: a QP uses one version of RoCE, and the other one has a counter of
/// its own.
// shows: A16-versions-apart, CA17-41-gid-type-checked
#[test]
fn packets_of_the_other_version_are_dropped() {
    for (ours, theirs) in [(Ip::Grh, Ip::V4), (Ip::V4, Ip::Grh)] {
        let of = |ip| Setup {
            ip,
            ..Setup::default()
        };
        let (mut hand, mem, bth, ext) = target(of(ours));
        let meta = Hand::new(of(theirs)).meta();
        assert_ne!(meta.version(), hand.meta().version());
        hand.deliver_from(meta, bth, ext, &[1; 8]);
        assert_dropped(hand, &mem, DropReason::WrongVersion);
    }
}

/// Nor are acknowledgements of others accepted.
// shows: 9.6.1-source
#[test]
fn acknowledgements_of_others_are_dropped() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let mut meta = hand.meta();
    meta.src = hand.setup.ip.address(3);
    let ext = ExtHeaders {
        aeth: Some(roce_wire::Aeth::default()),
        ..ExtHeaders::NONE
    };
    hand.deliver_from(meta, hand.bth(Opcode::RC_ACKNOWLEDGE, psn), ext, &[]);
    assert_eq!(hand.drops(DropReason::WrongPeer), 1);
    assert!(hand.node.sent().is_empty());
}

/// Another partition (9.6.1.1, 10.9.3); a limited member of the QP's own partition is accepted.
// shows: 9.6.1-pkey, 10.9.3-match
#[test]
fn packets_of_another_partition_are_dropped() {
    for pkey in [0x0000, 0x8000, 0x8001, 0x7ffe] {
        let (mut hand, mem, mut bth, ext) = target(Setup::default());
        bth.pkey = PKey(pkey);
        hand.deliver(bth, ext, &[1; 8]);
        assert_dropped(hand, &mem, DropReason::WrongPKey);
    }
    let (mut hand, mem, mut bth, ext) = target(Setup::default());
    bth.pkey = PKey(0x7fff);
    hand.deliver(bth, ext, &[1; 8]);
    assert_eq!(mem.read(0, 8), [1; 8]);
}

// shows: 9.6.1-unknown-qp, 9.6.1-no-answer
#[test]
fn packets_for_no_qp_are_dropped() {
    let (mut hand, mem, mut bth, ext) = target(Setup::default());
    bth.dest_qpn = Qpn::from_bits(hand.node.qpn.get() ^ 1);
    hand.deliver(bth, ext, &[1; 8]);
    assert_dropped(hand, &mem, DropReason::UnknownQp);
}

/// Management datagrams that are not supported here, such as the round-trip probes of some NICs,
/// are dropped silently.
// shows: A16-no-qp0
// trap: probes-to-qp1
#[test]
fn management_datagrams_are_dropped_quietly() {
    let (mut hand, mem, ..) = target(Setup::default());
    let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::QP1, Psn::ZERO);
    hand.deliver(bth, ExtHeaders::NONE, &[1; 256]);
    assert_dropped(hand, &mem, DropReason::UnknownQp);
}

/// Packets of other transport services for an RC QP (9.6.1.2).
// shows: 9.6.1-service, CA17-39-transport-errors
#[test]
fn packets_of_another_transport_are_dropped() {
    for opcode in [
        Opcode::UC_WRITE_ONLY,
        Opcode::UD_SEND_ONLY,
        Opcode::XRC_WRITE_ONLY,
    ] {
        let (mut hand, mem, mut bth, ext) = target(Setup::default());
        bth.opcode = opcode;
        hand.deliver(bth, ext, &[1; 8]);
        assert_dropped(hand, &mem, DropReason::WrongTransport);
    }
}

/// Every single bit: either the ICRC covers it and the packet is dropped, or it is one that routers
/// may change (RoCEv2 Annex A17.3.3).
// shows: 9.6.1-icrc, CA17-22-padding
#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for ip in Ip::ALL {
        let setup = Setup {
            ip,
            ..Setup::default()
        };
        let (hand, _, bth, ext) = target(setup);
        let bits = frame(hand.meta(), bth, ext, &[1; 8]).bytes.len() * 8;
        let mut found = 0;
        for bit in 0..bits {
            let (mut hand, mem, bth, ext) = target(setup);
            let mut packet = frame(hand.meta(), bth, ext, &[1; 8]);
            packet.bytes[bit / 8] ^= 1 << (bit % 8);
            hand.node.nic.receive(hand.now, &packet.meta, &packet.bytes);
            let counters = hand.node.nic.counters();
            let damaged =
                counters.drops(DropReason::BadIcrc) + counters.drops(DropReason::Malformed);
            // FECN, BECN and six reserved bits.
            let covered = bit / 8 != 4;
            assert_eq!(damaged, u64::from(covered), "{ip:?}, bit {bit}");
            assert_eq!(mem.word(0) == 0, covered, "{ip:?}, bit {bit}");
            found += damaged;
        }
        assert_eq!(found as usize, bits - 8);
    }
}

/// The IP header fields that the port reports are covered, too.
// shows: CA17-24-silent-drop
#[test]
fn a_changed_ip_header_is_found() {
    let change: [fn(&mut RxMeta); 3] = [
        |meta| meta.src_port ^= 1,
        |meta| {
            meta.ip = IpCovered::V4 {
                id: 8,
                flags_fragment: 0x4000,
            }
        },
        |meta| {
            meta.ip = IpCovered::V4 {
                id: 7,
                flags_fragment: 0,
            }
        },
    ];
    for change in change {
        let (mut hand, mem, bth, ext) = target(Setup::default());
        let mut packet = frame(hand.meta(), bth, ext, &[1; 8]);
        change(&mut packet.meta);
        hand.node.nic.receive(hand.now, &packet.meta, &packet.bytes);
        assert_dropped(hand, &mem, DropReason::BadIcrc);
    }
    // Type of service and time to live are not covered.
    let (mut hand, mem, bth, ext) = target(Setup::default());
    let mut packet = frame(hand.meta(), bth, ext, &[1; 8]);
    packet.meta.traffic_class = 0xc3;
    hand.node.nic.receive(hand.now, &packet.meta, &packet.bytes);
    assert_eq!(mem.read(0, 8), [1; 8]);
    assert_eq!(hand.stat(Stat::EcnMarked), 1);
}

/// Packets with real credit counts, odd source ports or ECN marks, or without "don't fragment", are
/// accepted, since hardware sends all of these.
// shows: A17.3.2.1-source-port
// trap: legal-frames
#[test]
fn peculiarities_of_hardware_are_understood() {
    for (src_port, traffic_class, flags_fragment) in
        [(69, 0x02, 0x4000), (0, 0xc2, 0x4000), (72, 0x10, 0)]
    {
        let (mut hand, mem, bth, ext) = target(Setup::default());
        let meta = RxMeta {
            src_port,
            traffic_class,
            ip: IpCovered::V4 {
                id: 0,
                flags_fragment,
            },
            ..hand.meta()
        };
        hand.deliver_from(meta, bth, ext, &[1; 8]);
        assert_eq!(mem.read(0, 8), [1; 8]);
    }
}

/// Truncations of a valid packet, and packets with nonsense in the header, with the right ICRC if
/// there is room for one.
// shows: 9.2.1-unknown-opcode, 9.2.4-pad-fits, 9.2.5-version-checked, 9.6.1-malformed
// shows: CA17-23-validation
#[test]
fn malformed_packets_are_dropped() {
    let (hand, _, bth, ext) = target(Setup::default());
    let whole = frame(hand.meta(), bth, ext, &[]).bytes;
    let mut cases: Vec<Vec<u8>> = (1..whole.len()).map(|len| whole[..len].to_vec()).collect();
    // No such opcode, no such version, more padding than payload.
    for (at, value) in [(0, 0x1f), (0, 0x15), (0, 0xff), (1, 0x41), (1, 0x70)] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        cases.push(bytes);
    }
    for mut bytes in cases {
        let (mut hand, mem, ..) = target(Setup::default());
        let meta = hand.meta();
        seal(&meta, &mut bytes);
        hand.node.nic.receive(hand.now, &meta, &bytes);
        assert_dropped(hand, &mem, DropReason::Malformed);
    }
}

/// A peer sends an empty datagram to check that the port is open.
#[test]
fn empty_datagrams_have_a_reason_of_their_own() {
    let (mut hand, mem, ..) = target(Setup::default());
    let meta = hand.meta();
    hand.node.nic.receive(hand.now, &meta, &[]);
    assert_dropped(hand, &mem, DropReason::Empty);
}

/// Padding counts for the ICRC but is not payload.
// shows: 9.2.4-pad-removed
#[test]
fn padding_is_not_payload() {
    for len in [5, 6, 7] {
        let (mut hand, mem, bth, _) = target(Setup::default());
        let data = vec![1; len];
        let ext = mem.reth(0, u32::try_from(len).expect("small"));
        hand.deliver(bth, ext, &data);
        assert_eq!(mem.read(0, len), data);
        assert_eq!(mem.read(len, 3), [0; 3]);
    }
}

/// CNPs are accepted, solicited or not, and have no other effect here.
// shows: A17.9.3-cnp-taken
// trap: unasked-cnps
#[test]
fn cnps_are_counted() {
    let (mut hand, mem, ..) = target(Setup::default());
    let mut bth = hand.bth(Opcode::CNP, 0);
    bth.becn = true;
    hand.deliver(bth, ExtHeaders::NONE, &[]);
    assert_eq!(hand.stat(Stat::CnpsReceived), 1);
    assert_eq!(hand.node.nic.counters().total_drops(), 0);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    assert_eq!(mem.read(0, 8), [1; 8]);
}

/// As for every packet: only from the peer, for the partition, in a state that receives.
// shows: 9.6.1-source
#[test]
fn cnps_of_strangers_are_dropped() {
    let (mut hand, ..) = target(Setup::default());
    let cnp = hand.bth(Opcode::CNP, 0);
    let mut meta = hand.meta();
    meta.src = hand.setup.ip.address(3);
    hand.deliver_from(meta, cnp, ExtHeaders::NONE, &[]);
    assert_eq!(hand.drops(DropReason::WrongPeer), 1);
    let mut other = cnp;
    other.pkey = PKey(0x8123);
    hand.deliver(other, ExtHeaders::NONE, &[]);
    assert_eq!(hand.drops(DropReason::WrongPKey), 1);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(QpState::Err))
        .expect("legal");
    hand.deliver(cnp, ExtHeaders::NONE, &[]);
    assert_eq!(hand.drops(DropReason::WrongState), 1);
    assert_eq!(hand.stat(Stat::CnpsReceived), 0);
}

/// Keys, QP numbers and PSNs can't be guessed: they differ from seed to seed and
/// have no pattern.
// trap: predictable-numbers
#[test]
fn numbers_that_admit_are_unpredictable() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..50 {
        let mut hand = Hand::new(Setup {
            seed,
            ..Setup::default()
        });
        let key = hand.mem(8).key;
        let psn = hand.node.nic.random_psn().get();
        for number in [
            u64::from(hand.node.qpn.get()),
            1 << 32 | u64::from(key),
            2 << 32 | u64::from(psn),
        ] {
            assert!(seen.insert(number), "{number:#x} came twice");
        }
        assert_ne!(hand.node.qpn, PEER_QPN);
    }
}

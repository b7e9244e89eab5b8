//! The packets of XRC.

use super::{Ends, Target};
use crate::sim::{A, B, Setup};
use roce_stack::{DropReason, SendOp};
use roce_wire::{Credits, ExtHeaders, Opcode, Syndrome, Transport, XrcEth};

/// Requests have the opcodes of XRC and name their SRQ in each packet; responses do not name one
/// and carry no credits.
// shows: A14-xrceth, A14-opcodes
#[test]
fn every_packet_is_of_xrc() {
    let mut ends = Ends::new(Setup::default());
    let from = ends.pair.mem(A, 8192);
    let to = ends.target_mem(1, 8192);
    let number = ends.srqs[1].number;
    for wr_id in 0..4 {
        ends.post_recv(1, wr_id, &[to.sge(0, 4096)]);
    }
    let remote = to.remote(0);
    let ops = [
        (SendOp::Send, 2500),
        (SendOp::SendImm(1), 0),
        (SendOp::Write(remote), 3000),
        (SendOp::WriteImm(remote, 2), 8),
        (SendOp::Read(remote), 3000),
        (
            SendOp::CompareSwap {
                remote,
                compare: 1,
                swap: 2,
            },
            8,
        ),
        (SendOp::FetchAdd { remote, add: 1 }, 8),
    ];
    for (wr_id, (op, len)) in ops.into_iter().enumerate() {
        ends.post(wr_id as u64, op, &[from.sge(0, len)], number);
        // One by one, so that each is acknowledged separately.
        ends.pair.run();
    }
    ends.pair.assert_sent(A, &[0, 1, 2, 3, 4, 5, 6]);
    let mut opcodes: Vec<Opcode> = Vec::new();
    for sent in &ends.pair.links[A].log {
        assert_eq!(sent.opcode().transport(), Transport::Xrc);
        let srqn = roce_wire::Qpn::from_bits(number.get());
        assert_eq!(sent.ext.xrceth, Some(XrcEth { srqn }));
        opcodes.push(sent.opcode());
    }
    let expected = [
        Opcode::XRC_SEND_FIRST,
        Opcode::XRC_SEND_MIDDLE,
        Opcode::XRC_SEND_LAST,
        Opcode::XRC_SEND_ONLY_WITH_IMMEDIATE,
        Opcode::XRC_WRITE_FIRST,
        Opcode::XRC_WRITE_MIDDLE,
        Opcode::XRC_WRITE_LAST,
        Opcode::XRC_WRITE_ONLY_WITH_IMMEDIATE,
        Opcode::XRC_READ_REQUEST,
        Opcode::XRC_COMPARE_SWAP,
        Opcode::XRC_FETCH_ADD,
    ];
    assert_eq!(opcodes, expected);
    let mut answers: Vec<Opcode> = Vec::new();
    for sent in &ends.pair.links[B].log {
        assert_eq!(sent.opcode().transport(), Transport::Xrc);
        assert_eq!(sent.ext.xrceth, None);
        if let Some(aeth) = sent.ext.aeth {
            assert_eq!(aeth.syndrome, Syndrome::Ack(Credits::INVALID));
        }
        answers.push(sent.opcode());
    }
    for opcode in [
        Opcode::XRC_ACKNOWLEDGE,
        Opcode::XRC_READ_RESPONSE_FIRST,
        Opcode::XRC_READ_RESPONSE_LAST,
        Opcode::XRC_ATOMIC_ACKNOWLEDGE,
    ] {
        assert!(answers.contains(&opcode), "{opcode:?} in {answers:?}");
    }
}

/// A target accepts requests of XRC, an initiator responses; all other packets are dropped and
/// counted.
// shows: A14-ini-tgt
#[test]
fn what_comes_the_wrong_way_is_dropped() {
    let mut target = Target::new();
    let mem = target.srqs[0].mem(&mut target.hand.node.nic, 64);
    let hand = &mut target.hand;
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    assert_eq!(hand.drops(DropReason::WrongTransport), 1);
    let aeth = ExtHeaders {
        aeth: Some(roce_wire::Aeth {
            syndrome: Syndrome::default(),
            msn: 0,
        }),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(Opcode::XRC_ACKNOWLEDGE, hand.setup.psn[0]);
    hand.deliver(bth, aeth, &[]);
    assert_eq!(hand.drops(DropReason::WrongDirection), 1);
    assert!(hand.out().is_empty());
    assert_eq!(mem.word(0), 0);
    // The same for the initiator.
    let mut ends = Ends::new(Setup::default());
    let (meta, qpn) = {
        let [a, b] = &ends.pair.nodes;
        let mut meta = target.hand.meta();
        (meta.src, meta.dst) = (b.address, a.address);
        (meta, a.qpn)
    };
    let number = ends.srqs[0].number;
    let bth = roce_wire::Bth::new(
        Opcode::XRC_SEND_ONLY,
        qpn,
        roce_wire::Psn::new(ends.pair.setup.psn[B]),
    );
    let frame = crate::sim::hand::frame(meta, bth, super::names(number), &[]);
    let now = ends.pair.now;
    let nic = &mut ends.pair.nodes[A].nic;
    nic.receive(now, &frame.meta, &frame.bytes);
    assert_eq!(nic.counters().drops(DropReason::WrongDirection), 1);
    assert!(!nic.wants_to_send());
}

//! Packets by their place in a message (IBTA 1.7, 9.7.3).

use crate::sim::{Hand, Out, PEER_QPN, Setup};
use roce_stack::{QpAttributes, QpState, SendOp};
use roce_wire::{NakCode, Opcode, PKey, PathMtu};

fn opcodes(out: &[Out]) -> Vec<Opcode> {
    out.iter().map(Out::opcode).collect()
}

fn lengths(out: &[Out]) -> Vec<usize> {
    out.iter().map(|o| o.payload.len()).collect()
}

/// FIRST, MIDDLE …, LAST or ONLY; all but the last full; the address in the first, immediate data
/// or a key in the last.
// shows: 9.7.3-segments, 9.7.3-full-packets, 9.7.3-suffix-last, 9.7.3-reth-first
#[test]
fn messages_are_cut_at_the_path_mtu() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(4096);
    let remote = mem.remote(0);
    let all = |op: SendOp, len: usize, hand: &mut Hand| {
        hand.post(1, op, &[mem.sge(0, len)]);
        let out = hand.out();
        let last = out.last().expect("a packet").psn();
        hand.ack(last);
        out
    };
    let out = all(SendOp::SendImm(7), 700, &mut hand);
    let expected = [
        Opcode::RC_SEND_FIRST,
        Opcode::RC_SEND_MIDDLE,
        Opcode::RC_SEND_LAST_WITH_IMMEDIATE,
    ];
    assert_eq!(opcodes(&out), expected);
    assert_eq!(lengths(&out), [256, 256, 188]);
    let imms: Vec<_> = out.iter().map(|o| o.ext.imm.map(|imm| imm.0)).collect();
    assert_eq!(imms, [None, None, Some(7)]);
    let out = all(SendOp::Write(remote), 512, &mut hand);
    let expected = [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_LAST];
    assert_eq!(opcodes(&out), expected);
    assert_eq!(lengths(&out), [256, 256]);
    let reths: Vec<_> = out.iter().map(|o| o.ext.reth.map(|r| r.dma_len)).collect();
    assert_eq!(reths, [Some(512), None]);
    let out = all(SendOp::SendInvalidate(9), 257, &mut hand);
    let keys: Vec<_> = out.iter().map(|o| o.ext.ieth.map(|ieth| ieth.0)).collect();
    assert_eq!(keys, [None, Some(9)]);
    for (len, opcode) in [(0, Opcode::RC_SEND_ONLY), (256, Opcode::RC_SEND_ONLY)] {
        let out = all(SendOp::Send, len, &mut hand);
        assert_eq!((opcodes(&out), lengths(&out)), (vec![opcode], vec![len]));
    }
    let out = all(SendOp::WriteImm(remote, 3), 0, &mut hand);
    assert_eq!(opcodes(&out), [Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE]);
}

/// Requests and answers alike carry the partition and the peer's QPN that the QP was configured
/// with.
// shows: 9.7.3-dest-qpn, 9.7.3-pkey
#[test]
fn every_packet_carries_the_partition_and_the_peers_qp() {
    let pkey = PKey(0x8123);
    let setup = Setup::default();
    let mut hand = Hand::in_reset(setup);
    let init = QpAttributes {
        pkey: Some(pkey),
        ..setup.init()
    };
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &init).expect("legal");
    hand.advance_to(QpState::Rts);
    let mem = hand.mem(64);
    let atomic = SendOp::FetchAdd {
        remote: mem.remote(0),
        add: 1,
    };
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Read(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.post(3, atomic, &[mem.sge(0, 8)]);
    let mut out = hand.out();
    for (opcode, ext) in [
        (Opcode::RC_READ_REQUEST, mem.reth(0, 8)),
        (Opcode::RC_FETCH_ADD, mem.atomic(0, 1)),
        (Opcode::RC_WRITE_ONLY, mem.reth(0, 0)),
        (Opcode::RC_SEND_ONLY, Default::default()),
    ] {
        let mut bth = hand.bth(opcode, hand.psn);
        hand.psn += 1;
        bth.pkey = pkey;
        hand.deliver(bth, ext, &[]);
        out.extend(hand.out());
    }
    assert_eq!(out.len(), 7, "three requests, four answers");
    for packet in out {
        assert_eq!((packet.bth.pkey, packet.bth.dest_qpn), (pkey, PEER_QPN));
    }
}

/// A retransmitted packet equals the original: PSN, opcode, headers, bytes.
// shows: 9.7.3-same-again
#[test]
fn a_retransmission_is_the_same_packet() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8192);
    mem.write(0, &[0x3c; 8192]);
    let sges = [mem.sge(0, 3000)];
    hand.post(1, SendOp::WriteImm(mem.remote(0), 5), &sges);
    hand.post(2, SendOp::SendInvalidate(6), &sges);
    let swap = SendOp::CompareSwap {
        remote: mem.remote(0),
        compare: 1,
        swap: 2,
    };
    hand.post(3, swap, &[mem.sge(4096, 8)]);
    let before = hand.out();
    hand.nak(before[0].psn(), NakCode::PsnSequenceError);
    let mut after = hand.out();
    hand.ack(before[0].psn());
    after.extend(hand.out());
    assert_eq!(before.len(), after.len());
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((old.psn(), old.opcode()), (new.psn(), new.opcode()));
        assert_eq!((old.ext, &old.payload), (new.ext, &new.payload));
    }
}

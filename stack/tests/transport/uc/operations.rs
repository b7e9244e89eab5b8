//! The operations of UC, without errors.

use super::setup;
use crate::sim::{A, B, Hand, Ip, Pair, Setup, pattern};
use roce_stack::{PostError, QpKind, SendFlags, SendOp, SendRequest, Stat, WcOpcode};
use roce_wire::{Opcode, PathMtu};

const SIZES: [usize; 8] = [0, 1, 3, 255, 256, 257, 512, 4000];

/// SEND and WRITE, each with and without immediate, of every length around the path MTU, across the
/// wrap of the PSN and over each kind of IP header.
// shows: 9.8.2-operations
#[test]
fn every_operation_moves_its_bytes() {
    for ip in Ip::ALL {
        for len in SIZES {
            let mut pair = Pair::new(Setup {
                ip,
                mtu: PathMtu::Mtu256,
                psn: [0xff_fffe, 7],
                ..setup()
            });
            let (from, to) = (pair.mem(A, 4096), pair.mem(B, 4096));
            let ops = [
                SendOp::Send,
                SendOp::SendImm(5),
                SendOp::Write(to.remote(0)),
                SendOp::WriteImm(to.remote(0), 6),
            ];
            for (wr_id, op) in (1..).zip(ops) {
                let data = pattern(wr_id, len);
                from.write(0, &data);
                to.write(0, &[0xee; 4096]);
                let consumes = !matches!(op, SendOp::Write(_));
                if consumes {
                    pair.post_recv(B, 10 * wr_id, &[to.sge(0, 4096)]);
                }
                pair.post(A, wr_id, op, &[from.sge(0, len)]);
                pair.run();
                pair.assert_sent(A, &[wr_id]);
                assert_eq!(to.read(0, len), data, "{op:?} of {len} over {ip:?}");
                assert_eq!(to.read(len, 1), [0xee], "nothing beyond");
                if !consumes {
                    assert!(pair.nodes[B].received().is_empty());
                    continue;
                }
                let done = pair.assert_received(B, &[10 * wr_id])[0];
                assert_eq!(done.byte_len as usize, len);
                let (imm, opcode) = match op {
                    SendOp::SendImm(imm) => (Some(imm), WcOpcode::Recv),
                    SendOp::WriteImm(_, imm) => (Some(imm), WcOpcode::RecvRdmaWithImm),
                    _ => (None, WcOpcode::Recv),
                };
                assert_eq!((done.imm, done.opcode), (imm, opcode));
            }
            assert_eq!(pair.nodes[B].nic.counters().total_drops(), 0);
        }
    }
}

/// No packet comes back, none asks for an answer (IBTA 1.7, 9.8.2.1), and no timer runs.
// shows: 9.8.2-no-acks, 9.8.2-ackreq-clear, 9.8.2-completes-when-sent
// trap: ackreq-unreliable
#[test]
fn nothing_is_acknowledged() {
    let mut pair = Pair::new(setup());
    let (from, to) = (pair.mem(A, 9000), pair.mem(B, 9000));
    pair.post_recv(B, 1, &[to.sge(0, 9000)]);
    pair.post(A, 1, SendOp::Send, &[from.sge(0, 9000)]);
    pair.post(A, 2, SendOp::Write(to.remote(0)), &[from.sge(0, 9000)]);
    pair.pump();
    // They have been sent, and there is nothing else to wait for.
    pair.assert_sent(A, &[1, 2]);
    pair.run();
    assert_eq!(pair.links[A].log.len(), 18);
    assert!(pair.links[A].log.iter().all(|sent| !sent.bth.ack_req));
    assert!(pair.links[B].log.is_empty());
    for node in &pair.nodes {
        assert_eq!(node.nic.next_timeout(), None);
        assert_eq!(node.nic.counters().stat(Stat::AcksSent), 0);
    }
}

/// Packets carry consecutive PSNs and UC's opcodes.
// shows: 9.8.2-psn-each
#[test]
fn a_message_is_cut_as_the_specification_says() {
    let mut hand = Hand::new(Setup {
        psn: [0xff_ffff, 0],
        ..setup()
    });
    let mem = hand.mem(4096);
    hand.post(1, SendOp::SendImm(9), &[mem.sge(0, 2049)]);
    let to = mem.remote(0);
    hand.post(2, SendOp::Write(to), &[mem.sge(0, 1024)]);
    let out = hand.out();
    let opcodes: Vec<_> = out.iter().map(crate::sim::Out::opcode).collect();
    assert_eq!(
        opcodes,
        [
            Opcode::UC_SEND_FIRST,
            Opcode::UC_SEND_MIDDLE,
            Opcode::UC_SEND_LAST_WITH_IMMEDIATE,
            Opcode::UC_WRITE_ONLY,
        ]
    );
    let psns: Vec<_> = out.iter().map(crate::sim::Out::psn).collect();
    assert_eq!(psns, [0xff_ffff, 0, 1, 2]);
    assert_eq!(out[3].ext.reth.map(|reth| reth.dma_len), Some(1024));
}

/// A full port delays a message in the middle; it continues where it was.
#[test]
fn a_full_port_only_delays() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(8192);
    hand.node.port.max_queued = 3;
    hand.post(1, SendOp::Send, &[mem.sge(0, 8192)]);
    assert_eq!(hand.out_psns(), [0x10, 0x11, 0x12]);
    assert!(hand.node.sent().is_empty());
    assert_eq!(hand.out_psns(), [0x13, 0x14, 0x15]);
    assert_eq!(hand.out_psns(), [0x16, 0x17]);
    assert_eq!(hand.node.sent().len(), 1);
}

/// READ, atomics and SEND with invalidate need answers, which UC does not have.
// shows: 9.8.2-operations
#[test]
fn operations_of_rc_are_refused() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(64);
    let remote = mem.remote(0);
    let swap = SendOp::CompareSwap {
        remote,
        compare: 0,
        swap: 1,
    };
    for (op, opcode) in [
        (SendOp::Read(remote), WcOpcode::RdmaRead),
        (SendOp::FetchAdd { remote, add: 1 }, WcOpcode::FetchAdd),
        (swap, WcOpcode::CompareSwap),
        (SendOp::SendInvalidate(1), WcOpcode::Send),
    ] {
        let wr = SendRequest::new(1, op, mem.sge(0, 8)).with_flags(SendFlags::empty());
        let result = hand.node.nic.post_send(hand.now, hand.node.qpn, &wr);
        let kind = QpKind::Uc;
        assert_eq!(result, Err(PostError::WrongService { kind, opcode }));
    }
    assert!(hand.out().is_empty());
}

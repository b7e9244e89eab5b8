//! WRITEs that are sent as trains of *RDMA WRITE Only* packets: docs/adr/0060-trains-of-writes.md.

use crate::sim::{A, B, Fate, Hand, Mem, Out, Pair, Sent, Setup, pattern};
use roce_stack::{Access, QpState, RemoteAddr, SendOp, WcStatus};
use roce_wire::{Opcode, PathMtu};

const MTU: usize = 256;
const LEN: usize = 5 * MTU - 100;

fn setup() -> Setup {
    Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    }
}

/// Sends a WRITE that the peer acknowledges. Returns its packets.
fn write(hand: &mut Hand, op: SendOp, mem: &Mem, len: usize) -> Vec<Out> {
    hand.post(1, op, &[mem.sge(0, len)]);
    let mut all = Vec::new();
    while hand.node.sent().is_empty() {
        let out = hand.out();
        let asks = out.iter().rfind(|out| out.bth.ack_req);
        hand.ack(asks.expect("a packet asks").psn());
        all.extend(out);
    }
    all
}

fn is_train(out: &[Out]) -> bool {
    let train = out.iter().all(|out| out.opcode() == Opcode::RC_WRITE_ONLY);
    let message = out[0].opcode() == Opcode::RC_WRITE_FIRST && out[0].ext.reth.is_some();
    assert!(train != message, "one or the other: {out:?}");
    train
}

fn at(addr: u64) -> RemoteAddr {
    RemoteAddr { addr, rkey: 5 }
}

/// Each packet has the address and the length of its bytes, and only the last one asks for an
/// acknowledgement. The completion is one.
#[test]
fn the_second_write_to_a_range_is_a_train() {
    for elements in [&[LEN][..], &[700, LEN - 700]] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(LEN);
        mem.write(0, &pattern(3, LEN));
        let first = write(&mut hand, SendOp::Write(at(0x1000)), &mem, LEN);
        assert!(!is_train(&first));
        let mut start = 0;
        let sges: Vec<_> = elements
            .iter()
            .map(|&len| {
                start += len;
                mem.sge(start - len, len)
            })
            .collect();
        hand.post(2, SendOp::Write(at(0x1000)), &sges);
        let out = hand.out();
        assert!(is_train(&out));
        assert_eq!(out.len(), 5);
        let mut bytes = Vec::new();
        for (index, packet) in out.iter().enumerate() {
            let reth = packet.ext.reth.expect("a RETH");
            assert_eq!(reth.va, 0x1000 + (index * MTU) as u64);
            assert_eq!(
                (reth.rkey, reth.dma_len as usize),
                (5, packet.payload.len())
            );
            assert_eq!(packet.psn(), first[4].psn() + 1 + index as u32);
            assert_eq!(packet.bth.ack_req, index == 4);
            bytes.extend_from_slice(&packet.payload);
        }
        assert!(bytes == pattern(3, LEN));
        hand.ack(out[3].psn());
        assert!(hand.node.sent().is_empty(), "not before the last packet");
        hand.ack(out[4].psn());
        let done: Vec<_> = hand.node.sent().iter().map(|done| done.wr_id).collect();
        assert_eq!(done, [2]);
    }
}

/// A peer refuses a WRITE that leaves its region as a whole. A train would be placed in part.
// shows: 9.7.4.1-whole-first
#[test]
fn a_write_beyond_those_before_it_is_refused_as_a_whole() {
    let mut pair = Pair::new(setup());
    let local = pair.mem(A, 4097);
    let remote = pair.mem(B, 4096);
    local.write(0, &[1; 4097]);
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 4096)]);
    pair.run();
    local.write(0, &[2; 4097]);
    pair.post(A, 2, SendOp::Write(remote.remote(0)), &[local.sge(0, 4097)]);
    pair.run();
    let outcomes = [(1, WcStatus::Success), (2, WcStatus::RemoteAccessError)];
    pair.assert_sent_as(A, &outcomes);
    assert_eq!(remote.read(0, 4096), vec![1; 4096]);
}

#[test]
fn only_writes_between_earlier_ones_are_trains() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(300 << 10);
    for (addr, len, train) in [
        (0x10000, LEN, false),
        (0x10000 + 1, LEN, false),
        (0x10000, LEN, true),
        (0x10000, LEN + 1, true),
        (0x10000, LEN + 2, false),
        (0x90000, 300 << 10, false),
        (0x30000, 256 << 10, true),
        (0x30000, (256 << 10) + 1, false),
    ] {
        let out = write(&mut hand, SendOp::Write(at(addr)), &mem, len);
        assert_eq!(is_train(&out), train, "{addr:#x}, {len} bytes");
    }
}

/// The receive completion has the length of the whole message.
// shows: 11.6.1-write-imm-length
#[test]
fn a_write_with_immediate_data_is_one_message() {
    let mut pair = Pair::new(setup());
    let (local, remote) = (pair.mem(A, LEN), pair.mem(B, LEN));
    for wr_id in 1..=3 {
        pair.post_recv(B, wr_id, &[]);
        let op = SendOp::WriteImm(remote.remote(0), 7);
        pair.post(A, wr_id, op, &[local.sge(0, LEN)]);
        pair.run();
    }
    for done in pair.assert_received(B, &[1, 2, 3]) {
        assert_eq!((done.byte_len as usize, done.imm), (LEN, Some(7)));
    }
}

/// Each packet of a train is lost once, and then its retransmission. What is retransmitted is the same.
#[test]
fn a_train_survives_losses() {
    for lost in 0..5_u64 {
        let mut pair = Pair::new(setup());
        let (local, remote) = (pair.mem(A, LEN), pair.mem(B, LEN));
        let op = SendOp::Write(remote.remote(0));
        pair.post(A, 1, op, &[local.sge(0, LEN)]);
        pair.run();
        local.write(0, &pattern(lost, LEN));
        let mut seen = 0;
        pair.links[A].script(move |sent| {
            if sent.opcode() != Opcode::RC_WRITE_ONLY {
                return Fate::Pass;
            }
            seen += 1;
            match seen == lost + 1 || seen == 6 {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
        pair.post(A, 2, op, &[local.sge(0, LEN)]);
        pair.run();
        pair.assert_sent(A, &[1, 2]);
        assert!(remote.read(0, LEN) == pattern(lost, LEN));
        let is_first = |sent: &Sent| sent.opcode() == Opcode::RC_WRITE_FIRST;
        assert_eq!(pair.links[A].count(is_first), 1, "the first WRITE only");
    }
}

/// The peer withdraws the key between two WRITEs.
#[test]
fn a_train_to_a_withdrawn_key_fails_as_a_write_does() {
    let mut pair = Pair::new(setup());
    let local = pair.mem(A, LEN);
    let remote = pair.nodes[B].mem_with(LEN, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let op = SendOp::Write(remote.remote(0));
    pair.post(A, 1, op, &[local.sge(0, LEN)]);
    pair.run();
    assert!(pair.nodes[B].nic.deregister(remote.remote(0).rkey));
    pair.post(A, 2, op, &[local.sge(0, LEN)]);
    pair.run();
    let outcomes = [(1, WcStatus::Success), (2, WcStatus::RemoteAccessError)];
    pair.assert_sent_as(A, &outcomes);
}

/// A new connection knows nothing of the regions of the last one's peer.
#[test]
fn a_new_connection_begins_with_messages() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(LEN);
    for train in [false, true] {
        let out = write(&mut hand, SendOp::Write(at(0x1000)), &mem, LEN);
        assert_eq!(is_train(&out), train);
    }
    hand.modify(QpState::Reset);
    hand.advance_to(QpState::Rts);
    let out = write(&mut hand, SendOp::Write(at(0x1000)), &mem, LEN);
    assert!(!is_train(&out));
}

//! A lost, late or repeated packet costs its message, and no other.

use super::setup;
use crate::sim::{A, B, Faults, Hand, Pair, Setup, pattern};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_stack::{DropReason, SendOp, Stat, WcStatus};
use roce_wire::{ExtHeaders, Opcode, PathMtu};

/// Four messages of three packets each; the one that lost a packet is missing, the others are
/// complete, and its receive takes the next message.
// shows: 9.8.2-gap-drops-message, 9.8.2-receive-reused
#[test]
fn a_gap_costs_one_message() {
    for lost in 0..3 {
        let mut pair = Pair::new(setup());
        let (from, to) = (pair.mem(A, 4 * 3000), pair.mem(B, 4 * 3000));
        from.write(0, &pattern(7, 4 * 3000));
        let numbers: &'static [usize] = [&[3], &[4], &[5]][lost];
        pair.links[A].hit(numbers, crate::sim::Fate::Drop, |_| true);
        for i in 0..4 {
            pair.post_recv(B, i, &[to.sge(i as usize * 3000, 3000)]);
            pair.post(
                A,
                i,
                SendOp::SendImm(i as u32),
                &[from.sge(i as usize * 3000, 3000)],
            );
        }
        pair.run();
        pair.assert_sent(A, &[0, 1, 2, 3]);
        let done = pair.assert_received(B, &[0, 1, 2]);
        let imms: Vec<_> = done.iter().map(|c| c.imm).collect();
        assert_eq!(imms, [Some(0), Some(2), Some(3)]);
        for (place, message) in [(0, 0), (1, 2), (2, 3)] {
            assert_eq!(to.read(place * 3000, 3000), from.read(message * 3000, 3000));
        }
        let counters = pair.nodes[B].nic.counters();
        // Its first packet lost: two that belong to no message. Its second: the third is out of
        // sequence. Its third: the next message's first packet reveals it.
        assert_eq!(
            [
                counters.drops(DropReason::OutOfPlace),
                counters.drops(DropReason::OutOfSequence),
                counters.stat(Stat::UnfinishedMessages),
            ],
            [[2, 0, 0], [0, 1, 1], [0, 0, 1]][lost]
        );
    }
}

/// A first packet starts a message with any PSN, as after the loss of any number of packets.
// shows: 9.8.2-resync-at-first
#[test]
fn any_first_packet_resynchronises() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(64);
    for psn in [5, 0xff_ffff, 0, 0x7f_ffff, 0x80_0000] {
        hand.post_recv(psn.into(), &[mem.sge(0, 64)]);
        let bth = hand.bth(Opcode::UC_SEND_ONLY, psn);
        hand.deliver(bth, ExtHeaders::NONE, &[1; 8]);
        assert_eq!(hand.node.received().len(), 1, "PSN {psn}");
    }
    assert_eq!(hand.node.nic.counters().total_drops(), 0);
}

/// No receive is posted: the whole message is dropped, even if one is posted before it ends.
// shows: 9.8.2-no-receive-drops
#[test]
fn a_message_without_a_receive_is_dropped() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(4096);
    hand.request(Opcode::UC_SEND_FIRST, ExtHeaders::NONE, &[1; 1024]);
    hand.post_recv(1, &[mem.sge(0, 4096)]);
    hand.request(Opcode::UC_SEND_MIDDLE, ExtHeaders::NONE, &[2; 1024]);
    hand.request(Opcode::UC_SEND_LAST, ExtHeaders::NONE, &[3; 10]);
    assert!(hand.node.received().is_empty());
    assert_eq!(hand.drops(DropReason::NoReceive), 1);
    assert_eq!(hand.drops(DropReason::OutOfPlace), 2);
    hand.request(Opcode::UC_SEND_ONLY, ExtHeaders::NONE, &[4; 10]);
    assert_eq!(hand.node.received().len(), 1);
    assert_eq!(mem.read(0, 10), [4; 10]);
    assert!(hand.out().is_empty());

    hand.request(Opcode::UC_WRITE_ONLY, mem.reth(0, 8), &[5; 8]);
    assert_eq!(mem.read(0, 8), [5; 8], "a WRITE needs no receive");
    let mut ext = mem.reth(0, 8);
    ext.imm = Some(roce_wire::ImmDt(1));
    hand.request(Opcode::UC_WRITE_ONLY_WITH_IMMEDIATE, ext, &[6; 8]);
    assert_eq!(mem.read(0, 8), [5; 8], "with immediate it needs one");
    assert_eq!(hand.drops(DropReason::NoReceive), 2);
}

/// A WRITE with immediate that lost a packet has placed the bytes before it, but consumes no
/// receive and is not reported; a packet of another operation ends it as well.
#[test]
fn a_lost_packet_costs_a_write_its_receive() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(4096);
    hand.post_recv(1, &[]);
    let imm = ExtHeaders {
        imm: Some(roce_wire::ImmDt(1)),
        ..ExtHeaders::NONE
    };
    let last = Opcode::UC_WRITE_LAST_WITH_IMMEDIATE;
    hand.request(Opcode::UC_WRITE_FIRST, mem.reth(0, 2058), &[1; 1024]);
    hand.psn += 1; // the middle is lost
    hand.request(last, imm, &[3; 10]);
    assert!(hand.node.received().is_empty());
    assert_eq!(hand.drops(DropReason::OutOfSequence), 1);
    assert_eq!(mem.read(1024, 2048), [0; 2048]);

    hand.request(Opcode::UC_WRITE_FIRST, mem.reth(0, 2058), &[4; 1024]);
    hand.request(Opcode::UC_SEND_MIDDLE, ExtHeaders::NONE, &[5; 1024]);
    hand.request(last, imm, &[6; 10]);
    assert!(hand.node.received().is_empty());
    assert_eq!(hand.drops(DropReason::OutOfPlace), 2);
    assert_eq!(hand.stat(Stat::UnfinishedMessages), 2);

    hand.request(Opcode::UC_WRITE_FIRST, mem.reth(0, 1034), &[7; 1024]);
    hand.request(last, imm, &[8; 10]);
    assert_eq!(hand.node.received().len(), 1);
}

/// On a bad wire: completions are correct, in order and not duplicated, the sender completes
/// everything successfully, and no state remains.
// shows: 9.8.2-completes-when-sent, 9.8.2-write-immediate-loss
#[test]
fn what_arrives_over_a_bad_wire_is_whole() {
    for seed in 0..40 {
        let mut dice = ChaCha20Rng::seed_from_u64(seed);
        let mut pair = Pair::new(Setup {
            seed,
            mtu: PathMtu::Mtu256,
            ..setup()
        });
        for link in &mut pair.links {
            link.faults = Faults {
                drop: 300,
                duplicate: 0,
                reorder: 0,
                corrupt: 300,
            };
        }
        const LEN: usize = 2000;
        let from = pair.mem(A, LEN);
        let to = pair.mem(B, LEN);
        let mut last = None;
        for message in 0..40_u32 {
            let len = dice.next_u32() as usize % LEN;
            let data = pattern(message.into(), len);
            from.write(0, &data);
            if pair.nodes[B].nic.queued(pair.nodes[B].qpn) == Some((0, 0)) {
                pair.post_recv(B, 1, &[to.sge(0, LEN)]);
            }
            pair.post(
                A,
                message.into(),
                SendOp::SendImm(message),
                &[from.sge(0, len)],
            );
            pair.run();
            assert_eq!(pair.nodes[A].sent().len(), 1, "seed {seed}");
            for done in pair.nodes[B].received() {
                assert_eq!(done.status, WcStatus::Success);
                assert_eq!(done.imm, Some(message), "seed {seed}");
                assert!(last < done.imm, "seed {seed}");
                last = done.imm;
                assert_eq!(to.read(0, len), data, "seed {seed}");
            }
        }
        assert!(last.is_some(), "some arrive: seed {seed}");
    }
}

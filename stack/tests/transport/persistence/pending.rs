//! FLUSHes whose memory takes long to become durable.

use super::{Disk, flush, persist, run, setup};
use crate::sim::{A, B, Fate, Hand, Mem, Pair, Setup, pattern, to_state};
use roce_stack::{Persist, QpState, SendOp, Stat};
use roce_wire::{
    ExtHeaders, Feth, FlushPlacement, FlushSelectivity, NakCode, Opcode, Psn, Reth, Syndrome,
};

/// Nothing is answered before the memory is durable, and the ATOMIC WRITE behind is not placed.
// shows: A19-flush-persistent, A19-atomic-write-order
#[test]
fn what_follows_waits_until_the_memory_is_durable() {
    let mut pair = Pair::new(setup());
    let from = pair.mem(A, 2000);
    from.write(0, &pattern(1, 2000));
    let (to, disk) = Disk::register(&mut pair.nodes[B], 4096, true);
    pair.post(A, 1, SendOp::Write(to.remote(8)), &[from.sge(0, 2000)]);
    pair.post(A, 2, flush(to.remote(8), 2000), &[]);
    pair.post(A, 3, SendOp::AtomicWrite(to.remote(0)), &[from.sge(0, 8)]);
    pair.post(A, 4, flush(to.remote(0), 8), &[]);
    // All of it arrives.
    while pair.nodes[B].nic.counters().stat(Stat::RxPackets) < 5 {
        assert!(pair.step());
    }
    let done = pair.nodes[A].sent();
    assert!(done.iter().all(|done| done.wr_id == 1), "{done:?}");
    assert_eq!(to.word(0), 0);
    assert_eq!(disk.after_power_cut(), [0; 4096]);
    persist(&mut pair, B);
    assert_eq!(to.word(0), from.word(0), "kept, and executed now");
    let durable = disk.after_power_cut();
    assert!(durable[8..2008] == pattern(1, 2000)[..]);
    run(&mut pair);
    let last = pair.nodes[A].sent();
    assert_eq!(last.last().map(|done| done.wr_id), Some(4));
    assert_eq!(disk.after_power_cut()[..8], from.read(0, 8));
    let naks = pair.nodes[B].nic.counters().stat(Stat::SequenceNaksSent);
    assert_eq!(naks, 0);
}

/// The header of a FLUSH to persistence of all of the memory.
pub(super) fn headers(mem: &Mem) -> ExtHeaders {
    ExtHeaders {
        flush: Some(Feth {
            placement: FlushPlacement::PERSISTENCE,
            selectivity: FlushSelectivity::Region,
        }),
        reth: Some(Reth {
            va: mem.addr(),
            rkey: mem.key,
            dma_len: 0,
        }),
        ..ExtHeaders::NONE
    }
}

fn take(hand: &mut Hand) -> Persist {
    hand.node.nic.poll_persist().expect("a FLUSH waits")
}

fn finish(hand: &mut Hand, persist: Persist) {
    hand.node.nic.finish_persist(hand.now, persist.run());
    hand.node.take_events();
}

/// A copy of a FLUSH that waits is not answered, and asks for nothing again. One of a FLUSH that
/// was answered is answered again.
// shows: A19-flush-duplicate
#[test]
fn copies_are_answered_only_when_the_original_was() {
    let mut hand = Hand::new(setup());
    let (mem, _) = Disk::register(&mut hand.node, 64, true);
    let psn = hand.psn;
    hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
    let waiting = take(&mut hand);
    hand.deliver(hand.bth(Opcode::RC_FLUSH, psn), headers(&mem), &[]);
    assert!(hand.out().is_empty());
    assert!(!hand.node.nic.has_persists());
    finish(&mut hand, waiting);
    let first = hand.out_one();
    hand.deliver(hand.bth(Opcode::RC_FLUSH, psn), headers(&mem), &[]);
    let again = hand.out_one();
    for answer in [first, again] {
        assert_eq!(answer.opcode(), Opcode::RC_READ_RESPONSE_ONLY);
        assert_eq!(answer.psn(), psn);
    }
    assert!(!hand.node.nic.has_persists());
}

/// Requests that find no room while a FLUSH waits are requested again when it is answered, but not
/// before.
#[test]
fn what_found_no_room_is_requested_again() {
    for room in [0, 16] {
        let mut hand = Hand::new(setup());
        hand.node.nic.set_reorder_limit(room);
        let (mem, _) = Disk::register(&mut hand.node, 64, true);
        let psn = hand.psn;
        hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
        let waiting = take(&mut hand);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[7; 8]);
        assert!(hand.out().is_empty());
        assert_eq!(mem.word(0), 0);
        finish(&mut hand, waiting);
        let out = hand.out();
        assert_eq!(out[0].opcode(), Opcode::RC_READ_RESPONSE_ONLY);
        assert_eq!(out[0].psn(), psn);
        let expected = match room {
            0 => Syndrome::Nak(NakCode::PsnSequenceError),
            _ => Syndrome::Ack(roce_wire::Credits::from_count(0)),
        };
        assert_eq!(out[1].syndrome(), Some(expected));
        assert_eq!(out[1].psn(), Psn::new(psn).next().get());
        assert_eq!(mem.word(0) != 0, room > 0);
    }
}

/// A FLUSH behind another waits for its turn, and what was dropped behind both is requested when
/// both are done.
#[test]
fn flushes_wait_for_each_other() {
    let mut hand = Hand::new(setup());
    let (mem, _) = Disk::register(&mut hand.node, 64, true);
    hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
    hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
    let first = take(&mut hand);
    assert!(!hand.node.nic.has_persists());
    hand.node.nic.set_reorder_limit(0);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[7; 8]);
    finish(&mut hand, first);
    assert_eq!(hand.out().len(), 1);
    let second = take(&mut hand);
    finish(&mut hand, second);
    let out = hand.out();
    let nak = Some(Syndrome::Nak(NakCode::PsnSequenceError));
    assert_eq!(out.last().expect("a NAK").syndrome(), nak);
    assert_eq!(out.len(), 2);
}

/// Requests behind a FLUSH that was kept are kept, too, and cause no NAK.
#[test]
fn a_flush_that_was_kept_waits_as_well() {
    let mut hand = Hand::new(setup());
    let (mem, _) = Disk::register(&mut hand.node, 64, true);
    hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
    hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[7; 8]);
    for answers in [1, 2] {
        assert_eq!(mem.word(0), 0);
        let waiting = take(&mut hand);
        finish(&mut hand, waiting);
        let out = hand.out();
        assert_eq!(out.len(), answers, "{out:?}");
        let opcode = out[0].opcode();
        assert_eq!(opcode, Opcode::RC_READ_RESPONSE_ONLY);
    }
    assert_ne!(mem.word(0), 0);
    assert_eq!(hand.stat(Stat::SequenceNaksSent), 0);
}

/// The result for a QP that was reset does not answer a FLUSH of its next connection.
#[test]
fn a_late_result_answers_nothing() {
    for destroyed in [false, true] {
        let mut hand = Hand::new(setup());
        let (mem, disk) = Disk::register(&mut hand.node, 64, true);
        hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
        let old = take(&mut hand);
        if destroyed {
            assert!(hand.node.nic.destroy_qp(hand.node.qpn));
            finish(&mut hand, old);
            assert!(!hand.node.nic.wants_to_send());
            continue;
        }
        hand.modify(QpState::Reset);
        hand.advance_to(QpState::Rts);
        hand.psn = hand.setup.psn[1];
        hand.request(Opcode::RC_FLUSH, headers(&mem), &[]);
        let new = take(&mut hand);
        mem.write(0, &[7; 64]);
        finish(&mut hand, old);
        assert!(hand.out().is_empty());
        finish(&mut hand, new);
        assert_eq!(hand.out().len(), 1);
        assert_eq!(disk.after_power_cut(), [7; 64]);
    }
}

/// Other QPs are served while one waits.
#[test]
fn only_its_own_qp_waits() {
    let mut pair = Pair::new(setup());
    let (to, _) = Disk::register(&mut pair.nodes[B], 64, true);
    let from = pair.mem(B, 64);
    let at = pair.mem(A, 64);
    from.set_word(0, 5);
    pair.post(A, 1, flush(to.remote(0), 64), &[]);
    // The other direction of the same QP does not wait either.
    pair.post(B, 2, SendOp::Write(at.remote(0)), &[from.sge(0, 8)]);
    pair.run_until(|pair| !pair.nodes[B].send_cq.is_empty());
    assert_eq!(at.word(0), 5);
    assert!(pair.nodes[A].send_cq.is_empty());
}

/// With loss, all of it becomes durable, in order.
#[test]
fn loss_delays_and_loses_nothing() {
    for lost in 0..8_usize {
        for side in [A, B] {
            let mut pair = Pair::new(Setup {
                seed: lost as u64 + 1,
                ..setup()
            });
            let from = pair.mem(A, 64);
            let (to, disk) = Disk::register(&mut pair.nodes[B], 64, true);
            let mut number = 0;
            pair.links[side].script(move |_| {
                number += 1;
                match number == lost + 1 {
                    true => Fate::Drop,
                    false => Fate::Pass,
                }
            });
            for n in 0..4 {
                from.set_word(8 * n, n as u64 + 1);
                let word = &[from.sge(8 * n, 8)];
                pair.post(A, 2 * n as u64, SendOp::Write(to.remote(8 * n)), word);
                pair.post(A, 2 * n as u64 + 1, flush(to.remote(8 * n), 8), &[]);
            }
            run(&mut pair);
            pair.assert_sent(A, &(0..8).collect::<Vec<u64>>());
            assert_eq!(disk.after_power_cut(), from.read(0, 64));
        }
    }
}

/// A QP that fails while its FLUSH waits answers nothing afterwards.
#[test]
fn a_failed_qp_does_not_answer() {
    let mut pair = Pair::new(setup());
    let (to, _) = Disk::register(&mut pair.nodes[B], 64, true);
    pair.post(A, 1, flush(to.remote(0), 64), &[]);
    pair.run_until(|pair| pair.nodes[B].nic.has_persists());
    pair.modify(B, &to_state(QpState::Err));
    persist(&mut pair, B);
    assert!(!pair.nodes[B].nic.wants_to_send());
}

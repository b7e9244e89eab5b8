//! Boundary cases, in each of which one comparison decides about a packet: whether it requests an
//! acknowledgement, is solicited, or is answered again (IBTA 1.7, 9.7).

use crate::sim::{Hand, Out, Setup, to_state};
use roce_stack::{Access, DropReason, QpState, SendFlags, SendOp, Stat, WcStatus};
use roce_wire::{
    Aeth, Credits, ExtHeaders, Feth, FlushPlacement, FlushSelectivity, NakCode, Opcode, PathMtu,
    Syndrome,
};

const MTU: usize = 1024;

fn respond(hand: &mut Hand, opcode: Opcode, psn: u32, payload: &[u8]) {
    let ext = ExtHeaders {
        aeth: Some(Aeth::default()),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(opcode, psn);
    hand.deliver(bth, ext, payload);
}

/// In mid-message, exactly one packet in each quarter of a window requests an acknowledgement, beside
/// the last of a turn.
#[test]
fn a_quarter_of_the_window_is_sent_between_questions() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu4096,
        ..Setup::default()
    });
    let mem = hand.mem(100 * 4096);
    let op = SendOp::Write(mem.remote(0));
    hand.post(1, op, &[mem.sge(0, 100 * 4096)]);
    let out = hand.out();
    let asks = (0..out.len()).filter(|n| out[*n].bth.ack_req);
    assert_eq!(asks.collect::<Vec<_>>(), [15, 31, 47, 59, 63]);
}

/// The last packet of a message that takes a receive requests a solicited event, if the application
/// wants it.
// shows: 9.7.3-solicited-last
#[test]
fn only_a_last_packet_that_takes_a_receive_is_solicited() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4 * MTU);
    let solicited = SendFlags::SIGNALED | SendFlags::SOLICITED;
    let write = SendOp::Write(mem.remote(0));
    let long = [mem.sge(0, 2 * MTU)];
    hand.post_with(1, SendOp::Send, &long, solicited);
    hand.post_with(2, SendOp::Send, &long, SendFlags::SIGNALED);
    hand.post_with(3, write, &long, solicited);
    hand.post_with(4, SendOp::WriteImm(mem.remote(0), 7), &long, solicited);
    let bits: Vec<bool> = hand.out().iter().map(|out| out.bth.solicited).collect();
    assert_eq!(bits, [false, true, false, false, false, false, false, true]);
}

/// The requester asks at once for two READs that fit the window together.
#[test]
fn reads_are_counted_by_their_packets() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64 * MTU);
    for n in 0..2 {
        let to = mem.sge(32 * MTU, 20 * MTU);
        hand.post(n, SendOp::Read(mem.remote(0)), &[to]);
    }
    assert_eq!(hand.out().len(), 2);
}

/// A READ that was requested again as a whole may not end early.
#[test]
fn a_repeated_read_ends_where_it_ends() {
    for gap in [false, true] {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(4 * MTU);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2 * MTU)]);
        hand.post(2, SendOp::Read(mem.remote(0)), &[mem.sge(2 * MTU, MTU)]);
        let psns = hand.out_psns();
        if gap {
            respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psns[1], &[2; MTU]);
            assert_eq!(hand.out_psns(), psns[..1]);
        } else {
            while hand.stat(Stat::LateAnswers) + hand.stat(Stat::Timeouts) == 0 {
                hand.timeout();
            }
            assert_eq!(hand.out_psns(), psns);
        }
        respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psns[0], &[1; MTU]);
        assert_eq!(hand.node.sent()[0].status, WcStatus::BadResponse);
    }
}

/// Neither may a READ other than the one of which a part was requested.
#[test]
fn only_the_read_that_was_split_ends_in_parts() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(16 * MTU);
    for n in 0..2_usize {
        let to = mem.sge((8 + 3 * n) * MTU, 3 * MTU);
        hand.post(n as u64, SendOp::Read(mem.remote(0)), &[to]);
    }
    let psn = hand.out()[0].psn();
    // The first response is lost; the requester asks for it alone.
    respond(
        &mut hand,
        Opcode::RC_READ_RESPONSE_MIDDLE,
        psn + 1,
        &[1; MTU],
    );
    assert_eq!(
        hand.out_one().ext.reth.map(|reth| reth.dma_len),
        Some(MTU as u32)
    );
    respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psn, &[0; MTU]);
    // A response that ends no part can't be the last.
    respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, psn + 2, &[2; MTU]);
    assert_eq!(hand.node.sent()[0].status, WcStatus::Success);
    respond(
        &mut hand,
        Opcode::RC_READ_RESPONSE_FIRST,
        psn + 3,
        &[3; MTU],
    );
    respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, psn + 4, &[4; MTU]);
    assert_eq!(hand.node.sent()[0].status, WcStatus::BadResponse);
}

/// Credits that arrive with the acknowledgement of one SEND count from the next one on.
// shows: 9.7.7.2-under-way
#[test]
fn credits_count_from_the_first_message_that_is_not_begun() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    hand.answer(psn, Syndrome::Ack(Credits::from_count(1)));
    assert_eq!(hand.out_psns(), [psn + 1]);
}

fn atomic(hand: &mut Hand, mem: &crate::sim::Mem, psn: u32) {
    let mut ext = mem.atomic(0, 1);
    ext.aeth = None;
    let bth = hand.bth(Opcode::RC_FETCH_ADD, psn);
    hand.deliver(bth, ext, &[]);
}

/// The response to an atomic has the number of completed messages, including the atomic.
// shows: 9.7.7.1-msn
#[test]
fn the_answer_to_an_atomic_counts_messages() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let psn = hand.setup.psn[1];
    for n in 0..3 {
        atomic(&mut hand, &mem, psn + n);
        let told = hand.out_one().ext.aeth.map(|aeth| aeth.msn);
        assert_eq!(told, Some(n + 1));
    }
}

/// A duplicate that is answered does not count as stale.
#[test]
fn an_answered_duplicate_is_no_stale_one() {
    let setup = Setup::default();
    let mut hand = Hand::new(Setup {
        access: setup.access | Access::FLUSH_GLOBAL,
        ..setup
    });
    let mem = hand.mem(8);
    let psn = hand.setup.psn[1];
    atomic(&mut hand, &mem, psn);
    hand.out_one();
    atomic(&mut hand, &mem, psn);
    hand.out_one();
    flush(&mut hand, &mem, psn + 1);
    hand.out_one();
    flush(&mut hand, &mem, psn + 1);
    hand.out_one();
    assert_eq!(hand.drops(DropReason::StaleDuplicate), 0);
    // A packet that was not a FLUSH can't be answered as one.
    flush(&mut hand, &mem, psn);
    assert!(hand.out().is_empty());
    assert_eq!(hand.drops(DropReason::StaleDuplicate), 1);
}

fn flush(hand: &mut Hand, mem: &crate::sim::Mem, psn: u32) {
    let mut ext = mem.reth(0, 8);
    ext.flush = Some(Feth {
        placement: FlushPlacement::GLOBAL_VISIBILITY,
        selectivity: FlushSelectivity::Range,
    });
    let bth = hand.bth(Opcode::RC_FLUSH, psn);
    hand.deliver(bth, ext, &[]);
}

/// A peer that repeats packets that have arrived may not have received the NAK: the responder sends
/// it once more, and not a third time.
#[test]
fn what_is_missing_is_said_twice_at_most() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let write = |hand: &mut Hand, psn| {
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
        let naks = hand.out().into_iter().filter_map(|out| {
            let nak = matches!(out.syndrome(), Some(Syndrome::Nak(_)));
            nak.then_some(out.psn())
        });
        naks.collect::<Vec<_>>()
    };
    let psn = hand.setup.psn[1];
    assert_eq!(write(&mut hand, psn), [0; 0]);
    for gap in [psn + 1, psn + 3] {
        assert_eq!(write(&mut hand, gap + 1), [gap]);
        assert_eq!(write(&mut hand, gap - 1), [gap]);
        assert_eq!(write(&mut hand, gap - 1), [0; 0]);
        assert_eq!(write(&mut hand, gap), [0; 0]);
    }
}

/// A WRITE in progress takes no receive, so all posted receives are announced.
// shows: 9.7.7.2-credits-in-use
#[test]
fn a_write_under_way_takes_no_credit() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(2 * MTU);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    let len = u32::try_from(2 * MTU).expect("small");
    hand.request(Opcode::RC_WRITE_FIRST, mem.reth(0, len), &[1; MTU]);
    let one = Syndrome::Ack(Credits::from_count(1));
    assert_eq!(hand.out_one().syndrome(), Some(one));
}

/// A response that shows that an earlier one was lost is a retry, and fails the QP if no retries
/// are left; asking for it once more is not a retry.
// shows: 9.7.6.1-implied-nak
#[test]
fn a_missing_response_is_one_retry() {
    for retry_cnt in [0, 1] {
        let mut hand = Hand::new(Setup {
            retry_cnt,
            ..Setup::default()
        });
        let mem = hand.mem(8 * MTU);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 2 * MTU)]);
        let psn = hand.out_one().psn();
        respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, psn + 1, &[1; MTU]);
        if retry_cnt == 0 {
            assert_eq!(hand.node.sent()[0].status, WcStatus::RetryExceeded);
            continue;
        }
        assert_eq!(hand.out_psns(), [psn]);
        // A later request is answered: the missing response was lost once more.
        hand.post(2, SendOp::Read(mem.remote(0)), &[mem.sge(4 * MTU, MTU)]);
        assert_eq!(hand.out_psns(), [psn + 2]);
        respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psn + 2, &[2; MTU]);
        assert_eq!(hand.out_psns(), [psn]);
        respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psn, &[0; MTU]);
        let done = hand.node.sent();
        assert!(done.iter().all(|c| c.status == WcStatus::Success));
        assert_eq!(done.len(), 2);
    }
}

/// A long READ is split into pieces of half a window, or of a whole one if only one READ may be
/// open.
#[test]
fn a_long_read_is_asked_for_in_pieces() {
    for (rd_atomic, packets) in [(1, 256), (2, 128), (4, 128)] {
        let mut hand = Hand::new(Setup {
            rd_atomic,
            ..Setup::default()
        });
        let mem = hand.mem(400 * MTU);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 400 * MTU)]);
        let asked = hand.out()[0].ext.reth.map(|reth| reth.dma_len as usize);
        assert_eq!(asked, Some(packets * MTU), "{rd_atomic} at once");
    }
}

/// The responses to pairs are of one length, those to a longer request are not.
#[test]
fn a_read_of_a_few_packets_is_requested_in_pairs() {
    let requests = |mtu: PathMtu, rd_atomic: u8, packets: usize| {
        let mut hand = Hand::new(Setup {
            mtu,
            rd_atomic,
            ..Setup::default()
        });
        let len = packets * mtu.bytes() - 100;
        let mem = hand.mem(len);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, len)]);
        let out = hand.out();
        let first = out[0].psn();
        let reth = |out: &Out| out.ext.reth.expect("a READ request");
        let start = reth(&out[0]).va;
        let pieces = out.iter().map(|out| {
            let (reth, psn) = (reth(out), out.psn() - first);
            assert_eq!(reth.va - start, u64::from(psn) * mtu.bytes() as u64);
            (psn, reth.dma_len as usize)
        });
        pieces.collect::<Vec<_>>()
    };
    let (long, short) = (PathMtu::Mtu4096, PathMtu::Mtu1024);
    assert_eq!(
        requests(long, 16, 5),
        [(0, 8192), (2, 8192), (4, 3996)],
        "pairs, and the rest"
    );
    assert_eq!(
        requests(short, 64, 4),
        [(0, 2048), (2, 1948)],
        "pairs, the last of which is shorter"
    );
    for (mtu, rd_atomic, packets) in [(long, 16, 16), (PathMtu::Mtu2048, 32, 16), (short, 64, 16)] {
        assert_eq!(requests(mtu, rd_atomic, packets).len(), packets / 2);
    }
    for (mtu, rd_atomic, packets) in [
        (long, 16, 17),
        (long, 15, 5),
        (PathMtu::Mtu2048, 31, 5),
        (short, 64, 17),
        (short, 63, 4),
        (long, 16, 2),
    ] {
        let len = packets * mtu.bytes() - 100;
        assert_eq!(requests(mtu, rd_atomic, packets), [(0, len)]);
    }
}

/// A response of no bytes answers only FLUSH and ATOMIC WRITE.
// shows: 9.7.6.1-response-kind
#[test]
fn an_empty_response_answers_no_atomic() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(16);
    let remote = mem.remote(0);
    hand.post(1, SendOp::FetchAdd { remote, add: 1 }, &[mem.sge(8, 8)]);
    let psn = hand.out_one().psn();
    respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, psn, &[]);
    assert_eq!(hand.node.sent()[0].status, WcStatus::BadResponse);
}

/// RESET discards the state of packets that were in flight, missing or about to be retransmitted.
#[test]
fn after_reset_a_requester_is_as_new() {
    let renew = |hand: &mut Hand| {
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        nic.modify_qp(hand.now, qpn, &to_state(QpState::Reset))
            .expect("legal");
        hand.advance_to(QpState::Rts);
        hand.node.sent();
        assert!(hand.out().is_empty());
        assert!(!hand.node.nic.wants_to_send());
    };
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8 * MTU);
    let read = |hand: &mut Hand| {
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 3 * MTU)]);
        hand.out_one().psn()
    };
    // A READ is open.
    read(&mut hand);
    renew(&mut hand);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.ack(psn);
    assert_eq!(hand.node.sent().len(), 1);
    renew(&mut hand);
    // A response is missing.
    let psn = read(&mut hand);
    respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, psn + 2, &[1; MTU]);
    renew(&mut hand);
    let psn = read(&mut hand);
    let first_two = [
        Opcode::RC_READ_RESPONSE_FIRST,
        Opcode::RC_READ_RESPONSE_MIDDLE,
    ];
    for (psn, opcode) in (psn..).zip(first_two) {
        respond(&mut hand, opcode, psn, &[1; MTU]);
        assert!(hand.out().is_empty(), "nothing is missing");
    }
    renew(&mut hand);
    // Requests are about to be retransmitted.
    hand.post(3, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(4, SendOp::Send, &[mem.sge(0, 8)]);
    let psns = hand.out_psns();
    hand.nak(psns[0], NakCode::PsnSequenceError);
    renew(&mut hand);
}

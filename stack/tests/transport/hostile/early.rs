//! An attacker that knows the addresses and the QPN of a connection, but not the expected PSN. It
//! spreads forged requests over the PSNs, and the NIC keeps those that are a little ahead.

use crate::sim::{Hand, Mem, Out, Setup};
use roce_stack::{DropReason, Duration, QpState, RemoteAddr, SendOp, Stat};
use roce_wire::{
    Aeth, AtomicEth, Bth, ExtHeaders, Ieth, ImmDt, NakCode, Opcode, Psn, Reth, Syndrome,
};

/// The number of PSNs.
const PSNS: u32 = 1 << 24;

/// The number of PSNs ahead of the expected one whose packets are kept.
const REACH: u32 = 1024;

const SEQUENCE: Option<Syndrome> = Some(Syndrome::Nak(NakCode::PsnSequenceError));

/// A request, without its PSN.
#[derive(Clone, Debug)]
struct Request {
    opcode: Opcode,
    ext: ExtHeaders,
    payload: Vec<u8>,
}

impl Request {
    fn new(opcode: Opcode, ext: ExtHeaders, len: usize) -> Self {
        Self {
            opcode,
            ext,
            payload: vec![7; len],
        }
    }

    /// A WRITE of eight bytes to the start of `mem`, each with the value `byte`.
    fn write(mem: &Mem, byte: u8) -> Self {
        Self {
            payload: vec![byte; 8],
            ..Self::new(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), 0)
        }
    }

    /// Delivers it `distance` PSNs after the first one.
    fn deliver(&self, hand: &mut Hand, distance: u32) {
        self.deliver_with(hand, distance, |_| {});
    }

    /// The same, from another source port than the peer's.
    fn deliver_elsewhere(&self, hand: &mut Hand, distance: u32) {
        let psn = Psn::new(hand.psn.wrapping_add(distance)).get();
        let mut meta = hand.meta();
        meta.src_port ^= 1;
        let bth = hand.bth(self.opcode, psn);
        hand.deliver_from(meta, bth, self.ext, &self.payload);
    }

    fn deliver_with(&self, hand: &mut Hand, distance: u32, change: impl FnOnce(&mut Bth)) {
        let psn = Psn::new(hand.psn.wrapping_add(distance)).get();
        let mut bth = hand.bth(self.opcode, psn);
        change(&mut bth);
        hand.deliver(bth, self.ext, &self.payload);
    }
}

/// The same headers, with a key that no region has.
fn bad_key(ext: ExtHeaders) -> ExtHeaders {
    let key = |reth: Reth| Reth { rkey: 1, ..reth };
    ExtHeaders {
        reth: ext.reth.map(key),
        atomic: ext.atomic.map(|atomic| AtomicEth { rkey: 1, ..atomic }),
        ..ext
    }
}

/// Whether the packets are one sequence NAK for the request `distance` PSNs after the first one.
fn are_nak_of(out: &[Out], hand: &Hand, distance: u32) -> bool {
    matches!(out, [nak] if nak.syndrome() == SEQUENCE && nak.psn() == hand.psn + distance)
}

/// One forged request in each stretch of PSNs that is kept: one of them is kept, wherever the
/// connection is. Its turn comes, and the connection goes on. The first 80 arrive before the QP is
/// on guard: 64 are near, 16 are guesses.
#[test]
fn forged_requests_that_would_be_refused_do_not_end_a_connection() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let forged = Request::new(Opcode::RC_WRITE_ONLY, bad_key(mem.reth(0, 8)), 8);
    for n in 0..PSNS / REACH {
        forged.deliver_elsewhere(&mut hand, REACH / 2 + n * REACH);
    }
    assert_eq!(hand.stat(Stat::OutOfOrderKept), 1);
    let refused = hand.drops(DropReason::WrongSourcePort);
    assert_eq!(refused, u64::from(PSNS / REACH) - 80);
    for n in 0..2 * REACH {
        Request::write(&mem, n as u8).deliver(&mut hand, n);
        hand.out();
        assert_eq!(hand.state(), QpState::Rts, "request {n}");
        assert_eq!(mem.read(0, 8), [n as u8; 8], "request {n}");
    }
    assert_eq!(hand.stat(Stat::FatalNaksSent), 0);
    assert_eq!(hand.drops(DropReason::OutOfSequence), 1 + 79);
}

/// Each kind of request that a responder refuses, or answers with an RNR NAK, and the number of
/// receives that are posted, each of eight bytes.
fn refused(mem: &Mem) -> Vec<(Request, usize)> {
    let (write, none) = (mem.reth(0, 8), ExtHeaders::NONE);
    let with_imm = |ext| ExtHeaders {
        imm: Some(ImmDt(5)),
        ..ext
    };
    let misaligned = ExtHeaders {
        atomic: mem.atomic(0, 1).atomic.map(|atomic| AtomicEth {
            va: atomic.va + 1,
            ..atomic
        }),
        ..none
    };
    let invalidate = ExtHeaders {
        ieth: Some(Ieth(1)),
        ..none
    };
    let write_imm = Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE;
    let all = [
        (Opcode::RC_WRITE_ONLY, bad_key(write), 8, 0),
        (Opcode::RC_WRITE_ONLY, write, 7, 0),
        (Opcode::RC_WRITE_MIDDLE, none, 1024, 0),
        (write_imm, with_imm(bad_key(write)), 8, 1),
        (write_imm, with_imm(write), 8, 0),
        (Opcode::RC_READ_REQUEST, bad_key(write), 0, 0),
        (Opcode::RC_FETCH_ADD, bad_key(mem.atomic(0, 1)), 0, 0),
        (Opcode::RC_FETCH_ADD, misaligned, 0, 0),
        (Opcode::RC_ATOMIC_WRITE, bad_key(write), 8, 0),
        (Opcode::RC_SEND_ONLY, none, 8, 0),
        (Opcode::RC_SEND_ONLY, none, 9, 1),
        (Opcode::RC_SEND_ONLY, none, 1025, 1),
        (Opcode::RC_SEND_LAST, none, 8, 1),
        (Opcode::RC_SEND_ONLY_WITH_INVALIDATE, invalidate, 8, 1),
    ];
    all.into_iter()
        .map(|(opcode, ext, len, receives)| (Request::new(opcode, ext, len), receives))
        .collect()
}

/// A kept request that can't be executed causes a sequence NAK, and changes nothing, not even the
/// receive that it would consume. If it then arrives in order, it gets its answer.
#[test]
fn only_a_request_that_arrives_in_order_is_refused() {
    let kinds = refused(&Hand::new(Setup::default()).mem(64)).len();
    for kind in 0..kinds {
        let mut hand = Hand::new(Setup::default());
        let (mem, receive) = (hand.mem(64), hand.mem(8));
        receive.write(0, &[9; 8]);
        let (request, receives) = refused(&mem).swap_remove(kind);
        for wr_id in 0..receives {
            hand.post_recv(wr_id as u64, &[receive.sge(0, 8)]);
        }
        request.deliver(&mut hand, 1);
        Request::write(&mem, 3).deliver(&mut hand, 2);
        Request::write(&mem, 1).deliver(&mut hand, 0);
        let out = hand.out();
        assert!(are_nak_of(&out, &hand, 1), "{request:?}: {out:#?}");
        assert_eq!(hand.state(), QpState::Rts, "{request:?}");
        assert_eq!(hand.drops(DropReason::OutOfSequence), 2, "{request:?}");
        assert_eq!(mem.read(0, 8), [1; 8], "{request:?}");
        assert_eq!(receive.read(0, 8), [9; 8], "{request:?}");
        let queued = hand.node.nic.queued(hand.node.qpn);
        assert_eq!(queued, Some((0, receives)), "{request:?}");
        assert!(hand.node.events.is_empty(), "{request:?}");
        request.deliver(&mut hand, 1);
        let ends = hand.state() == QpState::Err;
        let waits = matches!(hand.out()[..], [ref nak] if matches!(nak.syndrome(), Some(Syndrome::RnrNak(_))));
        assert!(ends != waits, "{request:?}");
    }
}

/// If two copies of a kept request differ in what they do, neither is executed, in whichever order
/// they arrive and however often. The peer is asked for the request again.
#[test]
fn of_two_copies_that_differ_neither_is_executed() {
    for forgery in 0..4 {
        for order in ["fh", "hf", "fhf", "hhf", "ffh"] {
            let mut hand = Hand::new(Setup::default());
            let mem = hand.mem(64);
            let honest = Request::write(&mem, 2);
            let mut forged = honest.clone();
            match forgery {
                0 => forged.payload = vec![9; 8],
                1 => forged.ext = mem.reth(16, 8),
                2 => forged = Request::new(Opcode::RC_FETCH_ADD, mem.atomic(0, 5), 0),
                _ => {}
            }
            for copy in order.chars() {
                if copy == 'h' {
                    honest.deliver(&mut hand, 1);
                } else {
                    forged.deliver_with(&mut hand, 1, |bth| bth.solicited = forgery == 3);
                }
            }
            Request::write(&mem, 3).deliver(&mut hand, 2);
            Request::write(&mem, 1).deliver(&mut hand, 0);
            let at = format!("forgery {forgery}, {order}");
            let out = hand.out();
            assert!(are_nak_of(&out, &hand, 1), "{at}: {out:#?}");
            assert_eq!(mem.read(0, 8), [1; 8], "{at}");
            assert_eq!(mem.read(8, 56), [0; 56], "{at}");
            assert!(hand.drops(DropReason::OutOfOrderDisputed) >= 2, "{at}");
            // Requests that are kept behind it are executed after the honest copy.
            honest.deliver(&mut hand, 1);
            assert_eq!(mem.read(0, 8), [3; 8], "{at}");
            assert_eq!(hand.out_one().psn(), hand.psn + 2, "{at}");
        }
    }
}

/// A copy that a peer or a switch may make does not differ: the acknowledge request and the
/// congestion bits do not affect what is executed.
#[test]
fn a_copy_that_does_the_same_is_no_dispute() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let changes: [fn(&mut Bth); 4] = [
        |bth| bth.ack_req = false,
        |bth| bth.fecn = true,
        |bth| bth.becn = true,
        |_| {},
    ];
    for change in changes {
        Request::write(&mem, 2).deliver_with(&mut hand, 1, change);
    }
    Request::write(&mem, 1).deliver(&mut hand, 0);
    assert_eq!(mem.read(0, 8), [2; 8]);
    assert_eq!(hand.drops(DropReason::DuplicateOutOfOrder), 3);
    assert_eq!(hand.drops(DropReason::OutOfOrderDisputed), 0);
}

/// Another connection of the same NIC, in RTS.
fn connect_another(hand: &mut Hand) {
    let (kind, queue) = (hand.setup.kind, hand.setup.queue);
    hand.node.qpn = hand.node.another_qp(kind, queue);
    hand.advance_to(QpState::Rts);
}

/// Delivers `count` requests ahead of the expected one. Returns the number of those that are kept.
fn keep(hand: &mut Hand, mem: &Mem, count: u32) -> u64 {
    let before = hand.stat(Stat::OutOfOrderKept);
    for distance in 1..=count {
        Request::write(mem, 1).deliver(hand, distance);
    }
    hand.stat(Stat::OutOfOrderKept) - before
}

/// Each connection that is flooded gets a smaller share of the buffers, and there are some left for
/// one that is not.
#[test]
fn a_flooded_connection_leaves_buffers_to_the_others() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    let mut shares = Vec::new();
    for _ in 0..20 {
        shares.push(keep(&mut hand, &mem, 2000));
        connect_another(&mut hand);
    }
    assert_eq!(shares[..4], [449, 224, 112, 56]);
    assert!(shares.iter().all(|share| *share >= 8), "{shares:?}");
    assert_eq!(keep(&mut hand, &mem, 8), 8);
}

/// Packets that have been kept for a long time make room for those of connections that need it,
/// even if every buffer is in use.
#[test]
fn what_waits_in_vain_makes_room() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for _ in 0..200 {
        keep(&mut hand, &mem, 2000);
        connect_another(&mut hand);
    }
    assert_eq!(keep(&mut hand, &mem, 8), 0, "all buffers are in use");
    hand.now = hand.now + Duration::from_secs(2);
    connect_another(&mut hand);
    assert!(keep(&mut hand, &mem, 600) > 400);
    assert!(hand.drops(DropReason::OutOfOrderExpired) > 500);
}

/// A request that is forged while a connection is idle is not executed when it goes on.
#[test]
fn what_was_kept_long_ago_is_not_executed() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    Request::write(&mem, 9).deliver(&mut hand, 1);
    hand.out();
    hand.now = hand.now + Duration::from_secs(2);
    Request::write(&mem, 1).deliver(&mut hand, 0);
    assert_eq!(mem.read(0, 8), [1; 8]);
    assert_eq!(hand.drops(DropReason::OutOfOrderExpired), 1);
    let out = hand.out();
    assert!(are_nak_of(&out, &hand, 1), "{out:#?}");
}

/// A forged READ response of the wrong length is kept. Its turn comes, and the requester asks for
/// the response again.
#[test]
fn a_forged_response_does_not_end_a_connection() {
    const MTU: usize = 1024;
    let mut hand = Hand::new(Setup::default());
    let (from, to) = (RemoteAddr { addr: 0, rkey: 1 }, hand.mem(3 * MTU));
    hand.post(1, SendOp::Read(from), &[to.sge(0, 3 * MTU)]);
    let first = hand.out_one().psn();
    let respond = |hand: &mut Hand, opcode, distance, len| {
        let ext = ExtHeaders {
            aeth: Some(Aeth::default()),
            ..ExtHeaders::NONE
        };
        let bth = hand.bth(opcode, first + distance);
        hand.deliver(bth, ext, &vec![5; len]);
    };
    respond(&mut hand, Opcode::RC_READ_RESPONSE_ONLY, 1, 8);
    respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, 2, MTU);
    respond(&mut hand, Opcode::RC_READ_RESPONSE_FIRST, 0, MTU);
    assert_eq!(hand.state(), QpState::Rts);
    let again = hand.out();
    assert_eq!(again.last().map(Out::psn), Some(first + 1), "{again:#?}");
    respond(&mut hand, Opcode::RC_READ_RESPONSE_FIRST, 1, MTU);
    respond(&mut hand, Opcode::RC_READ_RESPONSE_LAST, 2, MTU);
    assert_eq!(hand.node.sent().len(), 1);
    assert_eq!(hand.state(), QpState::Rts);
    assert!(to.read(0, 3 * MTU) == vec![5; 3 * MTU]);
}

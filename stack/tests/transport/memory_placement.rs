//! FLUSH and ATOMIC WRITE (IBTA 1.7, Annex A19).

use crate::sim::{A, B, Fate, Hand, Mem, Pair, Sent, Setup, pattern};
use roce_stack::WcStatus::{BadResponse, RemoteAccessError, RemoteInvalidRequest, Success};
use roce_stack::{
    Access, Buffer, Flush, Memory, MwBind, MwType, PostError, QpKind, RemoteAddr, SendFlags,
    SendOp, SendRequest, Sge, WcOpcode, WcStatus,
};
use roce_wire::{
    Aeth, ExtHeaders, Feth, FlushPlacement, FlushSelectivity, NakCode, Opcode, Operation, Reth,
    Syndrome,
};
use std::sync::Arc;

fn setup() -> Setup {
    Setup {
        access: all_for_peers(),
        ..Setup::default()
    }
}

fn all_for_peers() -> Access {
    Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL
}

fn flush(remote: RemoteAddr, len: u32) -> SendOp {
    SendOp::Flush(Flush {
        remote,
        len,
        placement: FlushPlacement::GLOBAL_VISIBILITY,
        selectivity: FlushSelectivity::Range,
    })
}

fn flush_region(rkey: u32) -> SendOp {
    SendOp::Flush(Flush {
        remote: RemoteAddr {
            addr: u64::MAX,
            rkey,
        },
        len: 0,
        placement: FlushPlacement::GLOBAL_VISIBILITY,
        selectivity: FlushSelectivity::Region,
    })
}

/// The result of an operation of A on memory of B.
fn outcome(pair: &mut Pair, op: SendOp) -> WcStatus {
    let local = pair.mem(A, 8);
    local.set_word(0, 0x0102_0304_0506_0708);
    let sges: &[Sge] = match op {
        SendOp::Flush(_) => &[],
        _ => &[local.sge(0, 8)],
    };
    pair.post(A, 1, op, sges);
    pair.run();
    let done = pair.nodes[A].sent();
    assert_eq!(done.len(), 1);
    done[0].status
}

/// One packet each, answered like a READ of no bytes.
// shows: A19-flush-response, A19-atomic-write-response
#[test]
fn both_are_answered_by_an_empty_read_response() {
    let mut pair = Pair::new(setup());
    let from = pair.mem(A, 3000);
    let to = pair.mem(B, 3000);
    from.write(0, &pattern(1, 3000));
    pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, 3000)]);
    pair.post(A, 2, flush(to.remote(0), 3000), &[]);
    pair.post(A, 3, SendOp::AtomicWrite(to.remote(8)), &[from.sge(0, 8)]);
    pair.post(A, 4, flush_region(to.key), &[]);
    pair.run();
    let done = pair.assert_sent(A, &[1, 2, 3, 4]);
    let opcodes: Vec<WcOpcode> = done.iter().map(|c| c.opcode).collect();
    let expected = [
        WcOpcode::RdmaWrite,
        WcOpcode::Flush,
        WcOpcode::AtomicWrite,
        WcOpcode::Flush,
    ];
    assert_eq!(opcodes, expected);
    assert_eq!(to.word(8), from.word(0));
    let answers: Vec<&Sent> = pair.links[B].log.iter().collect();
    let empty = |sent: &&&Sent| sent.opcode() == Opcode::RC_READ_RESPONSE_ONLY && sent.len == 0;
    assert_eq!(answers.iter().filter(empty).count(), 3);
    let flushes = pair.links[A].count(|sent| sent.opcode() == Opcode::RC_FLUSH);
    assert_eq!(flushes, 2);
}

/// WRITEs before a FLUSH are in memory when it completes, with any loss.
// shows: A19-flush-global
#[test]
fn a_flush_completes_behind_the_writes_before_it() {
    for lost in [&[0], &[1], &[2], &[3], &[4_usize]] {
        let mut pair = Pair::new(setup());
        let from = pair.mem(A, 3000);
        let to = pair.mem(B, 3000);
        from.write(0, &pattern(1, 3000));
        pair.links[A].hit(lost, Fate::Drop, |_| true);
        pair.post_with(
            A,
            1,
            SendOp::Write(to.remote(0)),
            &[from.sge(0, 3000)],
            SendFlags::empty(),
        );
        pair.post(A, 2, flush(to.remote(0), 3000), &[]);
        let flushed = |pair: &Pair| !pair.nodes[A].send_cq.is_empty();
        pair.run_until(flushed);
        assert!(to.read(0, 3000) == pattern(1, 3000));
    }
}

/// Ranges are checked exactly, a region only by its key.
// shows: A19-flush-range
#[test]
fn a_flush_names_a_range_or_a_region() {
    for (offset, len, status) in [
        (0_i64, 64, Success),
        (64, 0, Success),
        (0, 65, RemoteAccessError),
        (-1, 1, RemoteAccessError),
        (0, u32::MAX, RemoteAccessError),
    ] {
        let mut pair = Pair::new(setup());
        let mem = pair.mem(B, 64);
        let mut remote = mem.remote(0);
        remote.addr = remote.addr.wrapping_add_signed(offset);
        assert_eq!(outcome(&mut pair, flush(remote, len)), status, "{offset}");
    }
    for (change, status) in [(0, Success), (1, RemoteAccessError)] {
        let mut pair = Pair::new(setup());
        let mem = pair.mem(B, 64);
        let op = flush_region(mem.key ^ change);
        assert_eq!(outcome(&mut pair, op), status);
    }
}

/// Each operation needs its right of the QP and of the region; a window has rights of its own.
// shows: A19-flush-rights, A19-atomic-write-rights
#[test]
fn rights_are_needed_of_qp_and_region() {
    let needs = [
        Access::FLUSH_GLOBAL,
        Access::FLUSH_GLOBAL,
        Access::REMOTE_WRITE,
    ];
    for (n, right) in needs.into_iter().enumerate() {
        let op = |mem: &Mem| match n {
            0 => flush(mem.remote(0), 8),
            1 => flush_region(mem.key),
            _ => SendOp::AtomicWrite(mem.remote(0)),
        };
        // Of the QP.
        let mut pair = Pair::new(Setup {
            access: all_for_peers() - right,
            ..setup()
        });
        let mem = pair.mem(B, 8);
        let status = outcome(&mut pair, op(&mem));
        assert_eq!(status, RemoteInvalidRequest);
        // Of the region: only the right itself matters.
        for (access, status) in [
            (all_for_peers() - right, RemoteAccessError),
            (right, Success),
        ] {
            let mut pair = Pair::new(setup());
            let mem = pair.nodes[B].mem_with(8, access | Access::LOCAL_WRITE);
            assert_eq!(outcome(&mut pair, op(&mem)), status, "{access:?}");
            if status != Success {
                assert_eq!(mem.word(0), 0);
            }
        }
        // Of a window.
        for (access, status) in [
            (all_for_peers() - right, RemoteAccessError),
            (right, Success),
        ] {
            let mut pair = Pair::new(setup());
            let mem = pair.nodes[B].mem_with(8, Access::LOCAL_WRITE | Access::MW_BIND);
            let node = &mut pair.nodes[B];
            let window = node.nic.alloc_mw(node.pd, MwType::Type2);
            let bind = MwBind {
                window: window.expect("a window"),
                key: 1,
                lkey: mem.key,
                addr: mem.addr(),
                len: 8,
                access,
                zero_based: false,
            };
            pair.post(B, 9, SendOp::BindMw(bind), &[]);
            pair.run();
            let through = Mem {
                buffer: std::sync::Arc::clone(&mem.buffer),
                key: bind.window.rkey(1),
            };
            assert_eq!(outcome(&mut pair, op(&through)), status, "{access:?}");
        }
    }
}

/// The sum of address and length wraps around to an address in the region.
// shows: A19-flush-range
// trap: length-wraps
#[test]
fn a_range_that_wraps_is_denied() {
    for write in [false, true] {
        let mut pair = Pair::new(setup());
        let node = &mut pair.nodes[B];
        let access = Access::ANY_MEMORY;
        let from_zero = Memory::buffer(Arc::new(Buffer::new(64).expect("memory")));
        let region = node
            .nic
            .register_memory(node.pd, from_zero, Some(0), access);
        let remote = RemoteAddr {
            addr: u64::MAX - 7,
            rkey: region.expect("a region at address 0"),
        };
        let op = match write {
            true => SendOp::AtomicWrite(remote),
            false => flush(remote, 8),
        };
        assert_eq!(outcome(&mut pair, op), RemoteAccessError, "{op:?}");
    }
}

// shows: A19-atomic-write-aligned
#[test]
fn an_atomic_write_is_aligned() {
    for offset in [1, 4, 7] {
        let mut pair = Pair::new(setup());
        let mem = pair.mem(B, 64);
        let op = SendOp::AtomicWrite(mem.remote(offset));
        assert_eq!(outcome(&mut pair, op), RemoteInvalidRequest);
        assert_eq!(mem.read(0, 64), [0; 64]);
    }
}

fn headers(mem: &Mem, feth: Option<Feth>, dma_len: u32) -> ExtHeaders {
    ExtHeaders {
        flush: feth,
        reth: Some(Reth {
            va: mem.addr(),
            rkey: mem.key,
            dma_len,
        }),
        ..ExtHeaders::NONE
    }
}

fn feth(placement: u8, selectivity: u8) -> Option<Feth> {
    Some(Feth {
        placement: FlushPlacement::from_bits(placement),
        selectivity: FlushSelectivity::from_bits(selectivity),
    })
}

/// Reserved bits, no placement at all, another length than 8, in the middle of another message: all
/// are invalid.
// trap: atomic-write-length
#[test]
fn malformed_requests_are_invalid() {
    let invalid = Some(Syndrome::Nak(NakCode::InvalidRequest));
    for (placement, selectivity) in [(0, 0), (4, 0), (5, 0), (8, 1), (1, 2), (1, 3)] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        let ext = headers(&mem, feth(placement, selectivity), 8);
        hand.request(Opcode::RC_FLUSH, ext, &[]);
        assert_eq!(hand.out_one().syndrome(), invalid);
    }
    for dma_len in [0, 7, 9, u32::MAX] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        hand.request(
            Opcode::RC_ATOMIC_WRITE,
            headers(&mem, None, dma_len),
            &[1; 8],
        );
        assert_eq!(hand.out_one().syndrome(), invalid);
        assert_eq!(mem.word(0), 0);
    }
    for (opcode, len) in [(Opcode::RC_FLUSH, 0), (Opcode::RC_ATOMIC_WRITE, 8)] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(4096);
        hand.request(Opcode::RC_WRITE_FIRST, mem.reth(0, 2048), &[7; 1024]);
        hand.request(opcode, headers(&mem, feth(1, 0), 8), &vec![1; len]);
        assert_eq!(hand.out().last().expect("a NAK").syndrome(), invalid);
        assert_eq!(mem.read(0, 8), [7; 8]);
    }
}

/// A duplicate is answered again; an ATOMIC WRITE is not executed again.
// shows: A19-flush-duplicate, A19-atomic-write-once
#[test]
fn duplicates_are_answered_again() {
    for (opcode, len) in [(Opcode::RC_FLUSH, 0), (Opcode::RC_ATOMIC_WRITE, 8)] {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        let psn = hand.psn;
        let ext = headers(&mem, feth(1, 0), 8);
        let payload = vec![1; len];
        hand.request(opcode, ext, &payload);
        let first = hand.out_one();
        mem.set_word(0, 5);
        hand.deliver(hand.bth(opcode, psn), ext, &payload);
        let again = hand.out_one();
        for answer in [first, again] {
            assert_eq!(answer.opcode(), Opcode::RC_READ_RESPONSE_ONLY);
            assert_eq!((answer.psn(), answer.payload.len()), (psn, 0));
        }
        assert_eq!(mem.word(0), 5, "what was placed later stays");
    }
}

/// They use responder resources: a peer that exceeds its number is refused.
// shows: A19-flush-resource
#[test]
fn they_take_responder_resources() {
    let mut hand = Hand::new(Setup {
        dest_rd_atomic: 2,
        ..setup()
    });
    let mem = hand.mem(64);
    let ext = headers(&mem, feth(1, 0), 8);
    hand.node.port.max_queued = 0;
    hand.request(Opcode::RC_FLUSH, ext, &[]);
    hand.request(Opcode::RC_ATOMIC_WRITE, headers(&mem, None, 8), &[1; 8]);
    hand.request(Opcode::RC_FLUSH, ext, &[]);
    hand.node.port.max_queued = usize::MAX;
    let out = hand.out();
    let invalid = Some(Syndrome::Nak(NakCode::InvalidRequest));
    assert_eq!(out.last().expect("a NAK").syndrome(), invalid);
    assert_eq!(out.len(), 3);
}

/// A requester has no more of them outstanding than READs and atomics.
#[test]
fn a_requester_keeps_to_its_limit() {
    let mut pair = Pair::new(Setup {
        rd_atomic: 2,
        dest_rd_atomic: 2,
        ..setup()
    });
    let mem = pair.mem(B, 64);
    let local = pair.mem(A, 64);
    for n in 0..10 {
        pair.post(A, 2 * n, flush(mem.remote(0), 8), &[]);
        pair.post(
            A,
            2 * n + 1,
            SendOp::AtomicWrite(mem.remote(8)),
            &[local.sge(0, 8)],
        );
    }
    pair.pump();
    assert_eq!(pair.links[A].log.len(), 2);
    pair.run();
    let all: Vec<u64> = (0..20).collect();
    pair.assert_sent(A, &all);
}

/// The requester asks again for lost responses, in any order of loss.
#[test]
fn lost_answers_are_asked_for_again() {
    for lost in [&[0], &[1], &[2_usize]] {
        let mut pair = Pair::new(setup());
        let mem = pair.mem(B, 64);
        let local = pair.mem(A, 64);
        for n in 0..8 {
            local.set_word(8 * n, n as u64 + 1);
        }
        let answer = |sent: &Sent| sent.opcode().operation() == Operation::ReadResponse;
        pair.links[B].hit(lost, Fate::Drop, answer);
        for n in 0..8 {
            let op = SendOp::AtomicWrite(mem.remote(0));
            pair.post(A, n, op, &[local.sge(8 * n as usize, 8)]);
            pair.post(A, 10 + n, flush(mem.remote(0), 8), &[]);
        }
        pair.run();
        let all: Vec<u64> = (0..8).flat_map(|n| [n, 10 + n]).collect();
        pair.assert_sent(A, &all);
        assert_eq!(mem.word(0), 8, "placed in order, each once");
    }
}

/// Every value that a thread sees is one that was written, never parts of two.
// shows: A19-atomic-write-once, A19-atomic-write-order
#[test]
fn an_atomic_write_is_seen_as_a_whole_and_after_the_flush() {
    let mut pair = Pair::new(setup());
    let mem = pair.mem(B, 4096);
    let local = pair.mem(A, 4096);
    local.write(8, &[3; 2000]);
    local.set_word(0, u64::MAX);
    pair.post(A, 1, SendOp::Write(mem.remote(8)), &[local.sge(8, 2000)]);
    pair.post(A, 2, flush(mem.remote(8), 2000), &[]);
    pair.post(A, 3, SendOp::AtomicWrite(mem.remote(0)), &[local.sge(0, 8)]);
    while pair.step() {
        match mem.word(0) {
            0 => {}
            u64::MAX => assert_eq!(mem.read(8, 2000), [3; 2000]),
            parts => panic!("{parts:#x}"),
        }
    }
    assert_eq!(mem.word(0), u64::MAX);
    pair.assert_sent(A, &[1, 2, 3]);
}

/// A response with bytes, or of another kind, fits no such request.
#[test]
fn other_answers_are_bad() {
    for n in 0..2 {
        let mut hand = Hand::new(setup());
        let mem = hand.mem(64);
        match n {
            0 => hand.post(1, flush(mem.remote(0), 8), &[]),
            _ => hand.post(1, SendOp::AtomicWrite(mem.remote(0)), &[mem.sge(8, 8)]),
        }
        let psn = hand.out_one().psn();
        let aeth = ExtHeaders {
            aeth: Some(Aeth::default()),
            ..ExtHeaders::NONE
        };
        let bth = hand.bth(Opcode::RC_READ_RESPONSE_ONLY, psn);
        hand.deliver(bth, aeth, &[1; 8]);
        let statuses: Vec<WcStatus> = hand.node.sent().iter().map(|c| c.status).collect();
        assert_eq!(statuses, [BadResponse]);
        assert_eq!(mem.read(0, 64), [0; 64]);
    }
}

#[test]
fn illegal_requests_are_refused_at_once() {
    let mut pair = Pair::new(Setup {
        rd_atomic: 0,
        ..setup()
    });
    let mem = pair.mem(A, 64);
    let remote = mem.remote(0);
    let word = SendOp::AtomicWrite(remote);
    let cases: [(SendOp, &[Sge], PostError); 4] = [
        (
            flush(remote, 8),
            &[mem.sge(0, 8)],
            PostError::TooManySges { given: 1, max: 0 },
        ),
        (flush(remote, 8), &[], PostError::NoReadsAllowed),
        (word, &[mem.sge(0, 7)], PostError::AtomicLength { bytes: 7 }),
        (word, &[mem.sge(0, 8)], PostError::NoReadsAllowed),
    ];
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    for (op, sges, error) in cases {
        let wr = SendRequest::new(1, op, sges);
        assert_eq!(node.nic.post_send(now, node.qpn, &wr), Err(error));
    }
    // An unreliable service has neither.
    let mut pair = Pair::new(Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    });
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    for (op, opcode) in [
        (flush(remote, 8), WcOpcode::Flush),
        (word, WcOpcode::AtomicWrite),
    ] {
        let wr = SendRequest::new(1, op, ());
        let kind = QpKind::Uc;
        let refused = Err(PostError::WrongService { kind, opcode });
        assert_eq!(node.nic.post_send(now, node.qpn, &wr), refused);
    }
}

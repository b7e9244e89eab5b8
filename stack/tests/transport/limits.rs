//! Extreme sizes, and the bound on the bytes in flight.

use crate::sim::{A, B, Hand, Pair, Setup, pattern};
use roce_stack::{
    MAX_MESSAGE_BYTES, PostError, QpKind, QpState, QueueLimits, SendFlags, SendOp, SendRequest, Sge,
};
use roce_wire::{NakCode, Opcode, Operation, PathMtu, Syndrome};

/// 2^31 bytes are a legal message, one more is not (IBTA 1.7, 9.7.2). The check does not need real
/// memory.
// shows: 9.7.2-longest
// trap: odd-sizes
#[test]
fn the_longest_message_is_two_to_the_31() {
    let mut hand = Hand::new(Setup::default());
    let half = Sge {
        addr: 0,
        length: 1 << 30,
        lkey: 1,
    };
    let byte = Sge { length: 1, ..half };
    let post = |hand: &mut Hand, op, sges: &[Sge]| {
        let wr = SendRequest::new(1, op, sges);
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        nic.post_send(hand.now, qpn, &wr)
    };
    let remote = roce_stack::RemoteAddr::default();
    for op in [SendOp::Send, SendOp::Write(remote), SendOp::Read(remote)] {
        let bytes = MAX_MESSAGE_BYTES + 1;
        let too_long = Err(PostError::MessageTooLong { bytes });
        assert_eq!(post(&mut hand, op, &[half, half, byte]), too_long);
        assert_eq!(post(&mut hand, op, &[half, half]), Ok(()));
    }
    let huge = Sge {
        length: u32::MAX,
        ..half
    };
    let bytes = 4 * u64::from(u32::MAX);
    let too_long = Err(PostError::MessageTooLong { bytes });
    assert_eq!(post(&mut hand, SendOp::Send, &[huge; 4]), too_long);
}

/// A message of 2^31 bytes at path MTU 256 spans 2^23 PSNs, half of their space. It is sent one
/// window at a time; this test checks its beginning and the sizes.
// shows: 9.7.3.1-psn-each
// trap: odd-sizes
#[test]
fn the_longest_message_spans_half_of_all_psns() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(1 << 20);
    let sge = Sge {
        length: 1 << 31,
        ..mem.sge(0, 0)
    };
    hand.post(1, SendOp::Write(mem.remote(0)), &[sge]);
    let out = hand.out();
    let announced = out[0].ext.reth.map(|reth| reth.dma_len);
    assert_eq!(announced, Some(1 << 31));
    assert_eq!(out.len(), (256 << 10) / 256, "a window");
    // As responder: such a READ owns 2^23 PSNs, and the next request follows them.
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let first = hand.psn;
    let mut ext = mem.reth(0, 1 << 31);
    if let Some(reth) = ext.reth.as_mut() {
        reth.rkey ^= 1;
    }
    hand.request(Opcode::RC_READ_REQUEST, ext, &[]);
    let nak = hand.out_one();
    let refused = Syndrome::Nak(NakCode::RemoteAccessError);
    assert_eq!((nak.psn(), nak.syndrome()), (first, Some(refused)));
    // One byte more is not a legal request, with any key.
    let mut hand = Hand::new(Setup::default());
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, (1 << 31) + 1), &[]);
    let refused = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(hand.out_one().syndrome(), Some(refused));
}

/// The bytes in flight never exceed the window, for each operation.
// shows: 9.7.1-half-outstanding
// trap: read-overrun
#[test]
fn what_is_in_flight_stays_within_the_window() {
    for mtu in [PathMtu::Mtu256, PathMtu::Mtu1024, PathMtu::Mtu4096] {
        for n in 0..3 {
            let setup = Setup {
                mtu,
                window_bytes: 32 << 10,
                ..Setup::default()
            };
            let mut pair = Pair::new(setup);
            let len = 300_000;
            let local = pair.mem(A, len);
            let remote = pair.mem(B, len);
            pair.links[A].faults.drop = 200;
            pair.links[B].faults.drop = 200;
            pair.post_recv(B, 1, &[remote.sge(0, len)]);
            let op = [
                SendOp::Send,
                SendOp::Write(remote.remote(0)),
                SendOp::Read(remote.remote(0)),
            ][n];
            pair.post(A, 1, op, &[local.sge(0, len)]);
            loop {
                // A round trip's worth: the packets of one instant.
                let marks = [A, B].map(|side| pair.links[side].log.len());
                pair.pump();
                for side in [A, B] {
                    let bytes: usize = pair.links[side].log[marks[side]..]
                        .iter()
                        .map(|sent| sent.len)
                        .sum();
                    assert!(bytes <= 32 << 10, "{bytes} bytes at once, {op:?}");
                }
                if !pair.step() {
                    break;
                }
            }
            pair.assert_sent(A, &[1]);
        }
    }
}

/// The same, measured by unacknowledged packets.
#[test]
fn the_window_opens_by_what_is_acknowledged() {
    let mut hand = Hand::new(Setup {
        window_bytes: 8 << 10,
        ..Setup::default()
    });
    let mem = hand.mem(64 << 10);
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 64 << 10)]);
    let out = hand.out();
    assert_eq!(out.len(), 8);
    let asked = out.iter().filter(|out| out.bth.ack_req).count();
    assert!(asked >= 2, "acknowledgements come before the window closes");
    let first = out[0].psn();
    hand.ack(first + 2);
    assert_eq!(hand.out_psns(), [first + 8, first + 9, first + 10]);
}

/// After a timeout, the requester retransmits only a small part of the window, so that an
/// overloaded peer or network is not overloaded again. Acknowledgements open the window.
#[test]
fn a_timeout_closes_the_window_to_its_floor() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(256 << 10);
    let write = SendOp::Write(mem.remote(0));
    hand.post(1, write, &[mem.sge(0, 256 << 10)]);
    let first = hand.setup.psn[0];
    assert_eq!(hand.out().len(), 256);
    hand.timeout();
    assert_eq!(hand.out_psns(), (first..first + 32).collect::<Vec<_>>());
    hand.ack(first + 31);
    assert_eq!(hand.out().len(), 64);
}

/// Loss in either direction, and the whole range of path MTUs: the window shrinks, but never to
/// nothing.
#[test]
fn a_tiny_window_still_gets_through() {
    for mtu in PathMtu::ALL {
        let mut pair = Pair::new(Setup {
            mtu,
            window_bytes: 0,
            ..Setup::default()
        });
        for link in &mut pair.links {
            link.faults.drop = 500;
        }
        let len = 100_000;
        let local = pair.mem(A, len);
        let remote = pair.mem(B, 2 * len);
        remote.write(0, &pattern(1, len));
        pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
        let write = SendOp::Write(remote.remote(len));
        pair.post_with(
            A,
            2,
            write,
            &[local.sge(0, len)],
            SendFlags::SIGNALED | SendFlags::FENCE,
        );
        pair.run();
        pair.assert_sent(A, &[1, 2]);
        assert!(remote.read(len, len) == pattern(1, len));
    }
}

/// Queues of depth 1 and without elements work; a queue of depth 0 accepts nothing.
// shows: 11.2.5.1-depths, 10.7.3-elements
#[test]
fn tiny_queues_work() {
    for (depth, max_sge) in [(0, 0), (0, 4), (1, 0), (1, 1)] {
        let mut pair = Pair::new(Setup {
            queue: QueueLimits { depth, max_sge },
            ..Setup::default()
        });
        let wr = SendRequest::new(1, SendOp::Write(roce_stack::RemoteAddr::default()), ());
        for _ in 0..3 {
            let (now, node) = (pair.now, &mut pair.nodes[A]);
            let posted = node.nic.post_send(now, node.qpn, &wr);
            if depth == 0 {
                assert_eq!(posted, Err(PostError::QueueFull { depth: 0 }));
            } else {
                assert_eq!(posted, Ok(()));
                pair.run();
                pair.assert_sent(A, &[1]);
            }
        }
        assert_eq!(pair.state(A), QpState::Rts);
    }
}

/// READ responses are bounded by the requests, so that the responder's own queue is never overrun
/// by one large READ.
// trap: read-overrun
#[test]
fn a_large_read_is_paced_by_its_requester() {
    let mut pair = Pair::new(Setup {
        window_bytes: 16 << 10,
        ..Setup::default()
    });
    let len = 1 << 20;
    let local = pair.mem(A, len);
    let remote = pair.mem(B, len);
    pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    let responses = pair.links[B].count(|s| s.opcode().operation() == Operation::ReadResponse);
    assert_eq!(responses, 1024, "nothing was sent twice");
}

/// Every QP has its turn: one with much to send does not starve another.
#[test]
fn qps_take_turns() {
    let mut hand = Hand::new(Setup {
        window_bytes: 1 << 20,
        ..Setup::default()
    });
    let mem = hand.mem(1 << 20);
    let other = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
    let first = hand.node.qpn;
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 1 << 20)]);
    hand.node.qpn = other;
    hand.setup.psn[0] = 0x70_0000;
    hand.advance_to(QpState::Rts);
    hand.post(2, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
    hand.node.qpn = first;
    let psns = hand.out_psns();
    let at = psns.iter().position(|psn| *psn == 0x70_0000);
    assert!(at.is_some_and(|at| at <= 64), "{at:?} of {}", psns.len());
}

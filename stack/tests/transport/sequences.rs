//! Invalid requests and responses: out of sequence, of the wrong length, of the wrong kind (IBTA
//! 1.7, 9.7.4.1 and 9.7.5.2).

use crate::sim::{Hand, Setup};
use roce_stack::{DropReason, QpState, SendOp};
use roce_wire::{ExtHeaders, NakCode, Opcode, PathMtu, Syndrome};

/// One message at a time, each from FIRST to LAST, of one kind (9.7.4.1.2).
// shows: 9.7.4.1.2-begins, 9.7.4.1.2-ends, 9.7.4.1.2-one-kind, 9.7.4.1.2-fetch-outside
// shows: 9.7.5.2-invalid-nak, 9.9.3-responder-fails, 11.6.3-invalid-request
#[test]
fn illegal_sequences_of_opcodes_are_refused() {
    use Opcode as O;
    let mtu = [0; 256];
    let sequences: [&[Opcode]; 12] = [
        &[O::RC_SEND_MIDDLE],
        &[O::RC_SEND_LAST],
        &[O::RC_WRITE_MIDDLE],
        &[O::RC_WRITE_LAST],
        &[O::RC_WRITE_LAST_WITH_IMMEDIATE],
        &[O::RC_SEND_FIRST, O::RC_SEND_FIRST],
        &[O::RC_SEND_FIRST, O::RC_SEND_ONLY],
        &[O::RC_SEND_FIRST, O::RC_WRITE_MIDDLE],
        &[O::RC_WRITE_FIRST, O::RC_SEND_LAST],
        &[O::RC_WRITE_FIRST, O::RC_WRITE_ONLY],
        &[O::RC_WRITE_FIRST, O::RC_READ_REQUEST],
        &[O::RC_SEND_FIRST, O::RC_FETCH_ADD],
    ];
    for sequence in sequences {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(4096);
        hand.post_recv(1, &[mem.sge(0, 4096)]);
        for opcode in sequence {
            let ext = ExtHeaders {
                reth: mem.reth(0, 1024).reth,
                atomic: mem.atomic(0, 1).atomic,
                ..ExtHeaders::NONE
            };
            let len = match *opcode {
                O::RC_READ_REQUEST | O::RC_FETCH_ADD => 0,
                _ => 256,
            };
            hand.request(*opcode, ext, &mtu[..len]);
        }
        let out = hand.out();
        let nak = out.last().expect("a NAK");
        let invalid = Syndrome::Nak(NakCode::InvalidRequest);
        assert_eq!(nak.syndrome(), Some(invalid), "{sequence:?}");
        assert_eq!(nak.psn(), hand.psn - 1, "of the request at fault");
        assert_eq!(hand.state(), QpState::Err, "{sequence:?}");
    }
}

/// FIRST and MIDDLE are full, LAST has at least a byte, and no packet exceeds the path MTU
/// (9.7.4.1.6).
// shows: 9.7.4.1-length-full, 9.7.4.1-length-last, 9.7.4.1-length-only
#[test]
fn illegal_payload_lengths_are_refused() {
    use Opcode as O;
    let cases: [(Opcode, usize); 8] = [
        (O::RC_SEND_FIRST, 255),
        (O::RC_SEND_FIRST, 257),
        (O::RC_SEND_ONLY, 257),
        (O::RC_WRITE_FIRST, 128),
        (O::RC_WRITE_FIRST, 512),
        (O::RC_WRITE_ONLY, 257),
        (O::RC_SEND_ONLY_WITH_IMMEDIATE, 1024),
        (O::RC_WRITE_ONLY_WITH_IMMEDIATE, 300),
    ];
    for (opcode, len) in cases {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(4096);
        hand.post_recv(1, &[mem.sge(0, 4096)]);
        let total = u32::try_from(len).expect("small");
        let announced = if opcode == O::RC_WRITE_FIRST {
            600
        } else {
            total
        };
        hand.request(opcode, mem.reth(0, announced), &vec![1; len]);
        let invalid = Syndrome::Nak(NakCode::InvalidRequest);
        assert_eq!(hand.out_one().syndrome(), Some(invalid), "{opcode} {len}");
        assert_eq!(mem.read(0, 4096), vec![0; 4096], "{opcode} {len}");
    }
}

/// A WRITE's packets must add up to the length that it announced (9.7.4.1.6).
// shows: 9.7.4.1-write-adds-up
// trap: write-length
#[test]
fn a_write_must_add_up() {
    use Opcode as O;
    // The announced length, and the packets.
    let cases: [(u32, &[(Opcode, usize)]); 8] = [
        (9, &[(O::RC_WRITE_ONLY, 8)]),
        (7, &[(O::RC_WRITE_ONLY, 8)]),
        (0, &[(O::RC_WRITE_ONLY, 1)]),
        (256, &[(O::RC_WRITE_FIRST, 256)]),
        (300, &[(O::RC_WRITE_FIRST, 256), (O::RC_WRITE_LAST, 45)]),
        (300, &[(O::RC_WRITE_FIRST, 256), (O::RC_WRITE_LAST, 43)]),
        (512, &[(O::RC_WRITE_FIRST, 256), (O::RC_WRITE_MIDDLE, 256)]),
        (1 << 31 | 1, &[(O::RC_WRITE_FIRST, 256)]),
    ];
    for (announced, packets) in cases {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(4096);
        for (opcode, len) in packets {
            hand.request(*opcode, mem.reth(0, announced), &vec![1; *len]);
        }
        let out = hand.out();
        let nak = out.last().expect("a NAK").syndrome();
        let invalid = Some(Syndrome::Nak(NakCode::InvalidRequest));
        assert_eq!(nak, invalid, "{announced} {packets:?}");
        // The packet at fault was not placed.
        let placed = 256 * (packets.len() - 1);
        assert_eq!(mem.read(placed, 1024), vec![0; 1024]);
    }
}

/// Requests that this QP does not support are refused, not ignored (9.7.4.1.2).
// shows: 9.7.4.1.3-supported
#[test]
fn unsupported_requests_are_refused() {
    for (opcode, len) in [(Opcode::RC_FLUSH, 0), (Opcode::RC_ATOMIC_WRITE, 8)] {
        let mut hand = Hand::new(Setup {
            access: roce_stack::Access::REMOTE_READ,
            ..Setup::default()
        });
        let mem = hand.mem(8);
        hand.request(opcode, mem.reth(0, 8), &vec![1; len]);
        let invalid = Syndrome::Nak(NakCode::InvalidRequest);
        assert_eq!(hand.out_one().syndrome(), Some(invalid));
        assert_eq!(mem.word(0), 0);
    }
}

/// Responses that don't fit the request (9.7.5.2): of another kind, too long, too short, LAST too
/// early. The request fails, memory is unchanged.
// shows: 9.7.6.1-response-kind, 9.7.6.1-response-length, 9.7.6.1-response-end
// shows: 9.9.2-bad-response
#[test]
fn responses_that_fit_no_request_are_bad() {
    use Opcode as O;
    let aeth = ExtHeaders {
        aeth: Some(roce_wire::Aeth::default()),
        ..ExtHeaders::NONE
    };
    let cases: [(Opcode, usize); 6] = [
        (O::RC_READ_RESPONSE_ONLY, 256),
        (O::RC_READ_RESPONSE_FIRST, 255),
        (O::RC_READ_RESPONSE_FIRST, 257),
        (O::RC_READ_RESPONSE_LAST, 256),
        (O::RC_READ_RESPONSE_ONLY, 0),
        (O::RC_ATOMIC_ACKNOWLEDGE, 0),
    ];
    for (opcode, len) in cases {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(1024);
        hand.post(1, SendOp::Read(mem.remote(0)), &[mem.sge(0, 600)]);
        let psn = hand.out_one().psn();
        hand.deliver(hand.bth(opcode, psn), aeth, &vec![1; len]);
        let sent = hand.node.sent();
        assert_eq!(sent.len(), 1, "{opcode} {len}");
        assert_eq!(sent[0].status, roce_stack::WcStatus::BadResponse);
        assert_eq!(mem.read(0, 1024), vec![0; 1024], "{opcode} {len}");
    }
}

/// Nor may a READ response answer an atomic, although its length would fit.
// shows: 9.7.6.1-response-kind
#[test]
fn a_read_response_does_not_answer_an_atomic() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let add = SendOp::FetchAdd {
        remote: mem.remote(0),
        add: 1,
    };
    hand.post(1, add, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let aeth = ExtHeaders {
        aeth: Some(roce_wire::Aeth::default()),
        ..ExtHeaders::NONE
    };
    let bth = hand.bth(Opcode::RC_READ_RESPONSE_ONLY, psn);
    hand.deliver(bth, aeth, &[1; 8]);
    let status = hand.node.sent()[0].status;
    assert_eq!(status, roce_stack::WcStatus::BadResponse);
    assert_eq!(mem.word(0), 0);
}

/// A response in place of a plain acknowledgement fits no request and is dropped.
// shows: 9.7.6.1-response-unasked
#[test]
fn responses_to_what_is_no_fetch_are_dropped() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let aeth = ExtHeaders {
        aeth: Some(roce_wire::Aeth::default()),
        ..ExtHeaders::NONE
    };
    for opcode in [Opcode::RC_READ_RESPONSE_ONLY, Opcode::RC_ATOMIC_ACKNOWLEDGE] {
        hand.deliver(hand.bth(opcode, psn), aeth, &[]);
    }
    assert_eq!(hand.drops(DropReason::UnexpectedResponse), 2);
    assert!(hand.node.sent().is_empty());
    assert_eq!(mem.read(0, 64), [0; 64]);
    hand.ack(psn);
    assert_eq!(hand.node.sent().len(), 1);
}

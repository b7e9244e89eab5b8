//! The requests that a responder executes, and its answers (IBTA 1.7, 9.7.4 and 9.7.5).

use crate::sim::{Hand, Setup, to_state};
use roce_stack::{DropReason, MAX_MESSAGE_BYTES, QpState, Stat};
use roce_wire::{ExtHeaders, NakCode, Opcode, Reth, Syndrome};

// shows: 9.7.4.1.1-initial
#[test]
fn the_first_psn_expected_is_that_of_rtr() {
    for psn in [0, 1, 0x80_0000, 0xff_ffff] {
        let mut hand = Hand::new(Setup {
            psn: [5, psn],
            ..Setup::default()
        });
        let mem = hand.mem(8);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
        assert_eq!(mem.read(0, 8), [1; 8]);
        assert_eq!(hand.out_one().psn(), psn);
    }
}

/// Half of all PSNs are ahead of the expected one, and half behind.
// shows: 9.7.4.1.1-half
#[test]
fn half_of_all_psns_lie_behind() {
    const HALF: u32 = 1 << 23;
    for (distance, is_gap) in [
        (1, true),
        (HALF - 1, true),
        (HALF, false),
        (HALF + 1, false),
        (2 * HALF - 1, false),
    ] {
        let mut hand = Hand::new(Setup::default());
        hand.node.nic.set_reorder_limit(0);
        let mem = hand.mem(8);
        hand.psn = (hand.psn + distance) & 0xff_ffff;
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
        assert_eq!(mem.word(0), 0, "{distance:#x} ahead");
        let gaps = hand.drops(DropReason::OutOfSequence);
        let duplicates = hand.stat(Stat::DuplicateRequests);
        let expected = (u64::from(is_gap), u64::from(!is_gap));
        assert_eq!((gaps, duplicates), expected, "{distance:#x} ahead");
    }
}

/// 2^31 bytes are a legal length, one more is not, with any key.
// shows: 9.7.4.1-longest-write
#[test]
fn requests_for_more_than_two_to_the_31_are_refused() {
    let longest = u32::try_from(MAX_MESSAGE_BYTES).expect("it fits");
    for opcode in [Opcode::RC_WRITE_FIRST, Opcode::RC_READ_REQUEST] {
        for (dma_len, code) in [
            (longest, NakCode::RemoteAccessError),
            (longest + 1, NakCode::InvalidRequest),
        ] {
            let mut hand = Hand::new(Setup::default());
            let reth = Reth {
                va: 0,
                rkey: 1,
                dma_len,
            };
            let ext = ExtHeaders {
                reth: Some(reth),
                ..ExtHeaders::NONE
            };
            let payload = [1; 1024];
            let len = if opcode == Opcode::RC_WRITE_FIRST {
                1024
            } else {
                0
            };
            hand.request(opcode, ext, &payload[..len]);
            let nak = hand.out_one();
            assert_eq!(nak.syndrome(), Some(Syndrome::Nak(code)), "{opcode}");
        }
    }
}

/// A WRITE with immediate that finds no receive is not placed, so the peer may withdraw it.
// shows: 9.7.4.1-no-receive-write
#[test]
fn a_write_without_receive_is_not_placed() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let opcode = Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE;
    hand.request(opcode, mem.reth(0, 8), &[1; 8]);
    assert!(matches!(
        hand.out_one().syndrome(),
        Some(Syndrome::RnrNak(_))
    ));
    assert_eq!(mem.word(0), 0);
    hand.post_recv(1, &[]);
    hand.psn -= 1;
    hand.request(opcode, mem.reth(0, 8), &[1; 8]);
    assert_eq!(mem.read(0, 8), [1; 8]);
    assert_eq!(hand.node.received().len(), 1);
}

/// The memory of the receive that a WRITE with immediate consumes is unchanged.
// shows: 9.4.3-write-immediate-memory
#[test]
fn the_receive_of_a_write_keeps_its_memory() {
    let mut hand = Hand::new(Setup::default());
    let (target, own) = (hand.mem(8), hand.mem(8));
    hand.post_recv(1, &[own.sge(0, 8)]);
    let opcode = Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE;
    hand.request(opcode, target.reth(0, 8), &[1; 8]);
    assert_eq!(hand.node.received().len(), 1);
    assert_eq!((target.read(0, 8), own.word(0)), (vec![1; 8], 0));
}

/// When an acknowledgement leaves, the bytes that it acknowledges are in memory, for each packet of
/// a message.
// shows: 9.7.5.1.2-executed-first
#[test]
fn acknowledged_data_is_in_memory() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    hand.post_recv(1, &[mem.sge(0, 4096)]);
    let opcodes = [
        Opcode::RC_SEND_FIRST,
        Opcode::RC_SEND_MIDDLE,
        Opcode::RC_SEND_LAST,
    ];
    for (n, opcode) in opcodes.into_iter().enumerate() {
        let psn = hand.psn;
        hand.request(opcode, ExtHeaders::NONE, &[9; 1024]);
        let ack = hand.out_one();
        assert_eq!(ack.psn(), psn);
        assert_eq!(mem.read(n * 1024, 1024), [9; 1024]);
        let received = hand.node.received().len();
        assert_eq!(received, usize::from(opcode == Opcode::RC_SEND_LAST));
    }
}

/// The MSN starts at 0 with each connection.
// shows: 9.7.7.1-msn-start
#[test]
fn a_reset_qp_counts_messages_anew() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    for _ in 0..2 {
        for msn in 1..=3 {
            hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
            let aeth = hand.out_one().ext.aeth.expect("an acknowledgement");
            assert_eq!(aeth.msn, msn);
        }
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        nic.modify_qp(hand.now, qpn, &to_state(QpState::Reset))
            .expect("legal");
        hand.advance_to(QpState::Rts);
        hand.psn = hand.setup.psn[1];
    }
}

/// One of the four ECN codepoints means that a router was congested; "ECN-capable", in either form,
/// does not.
// shows: CA17-44-ce-seen
#[test]
fn only_congestion_experienced_is_noticed() {
    for (ecn, marked) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        let mut hand = Hand::new(Setup::default());
        let mem = hand.mem(8);
        let mut meta = hand.meta();
        meta.traffic_class = 0x48 | ecn;
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
        hand.deliver_from(meta, bth, mem.reth(0, 8), &[1; 8]);
        assert_eq!(mem.read(0, 8), [1; 8]);
        assert_eq!(hand.stat(Stat::EcnMarked), marked, "ECN {ecn}");
    }
}

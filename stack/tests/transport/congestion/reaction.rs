//! A QP that gets CNPs sends more slowly.

use crate::sim::{Hand, Mem, Setup, to_state};
use roce_stack::{CongestionControl, DcqcnParameters, Duration, QpKind, QpState, SendOp, Stat};
use roce_wire::{ExtHeaders, NakCode, Opcode};

pub(super) const PACKETS: usize = 100;
/// The bits of a packet, including everything that it occupies on an Ethernet.
pub(super) const BITS: u64 = (1024 + 62) * 8;

/// A first CNP sets this rate; it doesn't rise during a test.
pub(crate) fn fixed(mbps: u32) -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnParameters {
        rate_to_set_on_first_cnp: mbps,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    })
}

pub(super) fn hand(kind: QpKind, control: CongestionControl) -> (Hand, Mem) {
    let mut hand = Hand::new(Setup {
        kind,
        timeout: 0,
        ..Setup::default()
    });
    hand.node.nic.set_congestion_control(control);
    let mem = hand.mem(PACKETS * 1024);
    (hand, mem)
}

pub(crate) fn cnp(hand: &mut Hand) {
    let mut bth = hand.bth(Opcode::CNP, 0);
    bth.becn = true;
    hand.deliver(bth, ExtHeaders::NONE, &[]);
}

/// The time until `packets` packets have left, and the largest number that left at one time.
pub(super) fn send(hand: &mut Hand, packets: usize) -> (Duration, usize) {
    let begun = hand.now;
    let (mut sent, mut most) = (0, 0);
    loop {
        let burst = hand.out().len();
        sent += burst;
        most = most.max(burst);
        if sent >= packets {
            assert_eq!(sent, packets);
            return (hand.now.saturating_duration_since(begun), most);
        }
        hand.timeout();
    }
}

/// Posted requests, and the responses to a READ, leave at the rate, in bursts of about 10 us.
// shows: CA17-45-rate
#[test]
fn a_cnp_lowers_the_rate() {
    let expected = Duration::from_nanos(PACKETS as u64 * BITS);
    for (kind, reads) in [(QpKind::Rc, false), (QpKind::Rc, true), (QpKind::Uc, false)] {
        for slow in [false, true] {
            let (mut hand, mem) = hand(kind, fixed(1000));
            if slow {
                cnp(&mut hand);
            }
            if reads {
                let len = PACKETS as u32 * 1024;
                hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, len), &[]);
            } else {
                hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
            }
            let (took, most) = send(&mut hand, PACKETS);
            if slow {
                assert!(took > expected * 9 / 10, "{kind:?}, {reads}: {took:?}");
                assert!(took < expected * 11 / 10, "{kind:?}, {reads}: {took:?}");
                assert!(most <= 8, "{most}");
            } else {
                assert_eq!(took, Duration::ZERO);
            }
        }
    }
}

/// Without congestion control, CNPs are only counted.
// shows: A17.9.3-cnp-taken
#[test]
fn it_can_be_switched_off() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(1));
    cnp(&mut hand);
    hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
    assert_eq!(hand.out().len(), 0);
    hand.node
        .nic
        .set_congestion_control(CongestionControl::None);
    hand.timeout();
    assert_eq!(hand.out().len(), PACKETS);
    cnp(&mut hand);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8192)]);
    assert_eq!(hand.out().len(), 8);
    assert_eq!(hand.stat(Stat::CnpsReceived), 2);
    let told = hand.node.nic.qp_congestion(hand.now, hand.node.qpn);
    let told = told.expect("a QP");
    assert_eq!((told.rate, told.cnps_received), (None, 2));
}

/// Acknowledgements don't contribute to congestion: they leave at once.
#[test]
fn acknowledgements_do_not_wait() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(1));
    cnp(&mut hand);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8192)]);
    hand.out();
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    assert_eq!(hand.out_one().opcode(), Opcode::RC_ACKNOWLEDGE);
}

/// Requests and READ responses have their bursts in turn.
#[test]
fn neither_half_starves_the_other() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(40));
    cnp(&mut hand);
    hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 20 * 1024), &[]);
    let (mut responses, mut all) = (0, 0);
    while all < 40 {
        let out = hand.out();
        all += out.len();
        responses += out.iter().filter(|p| !p.opcode().is_request()).count();
        hand.timeout();
    }
    assert_eq!(responses, 20);
}

/// A flood of CNPs costs speed, down to the lowest rate, and nothing else. Once it is over, the
/// rate rises again until there is no limit.
// shows: CA17-46-recovery
// trap: hostile-packets
#[test]
fn a_flood_of_cnps_does_not_stop_a_sender() {
    let control = CongestionControl::Dcqcn(DcqcnParameters::CONNECT_X);
    let (mut hand, mem) = hand(QpKind::Rc, control);
    for _ in 0..20_000 {
        hand.now = hand.now + Duration::from_micros(1);
        cnp(&mut hand);
    }
    hand.post(1, SendOp::Send, &[mem.sge(0, 3 * 1024)]);
    let (took, _) = send(&mut hand, 3);
    // Three packets at 1 Mbit/s; the timer raises the rate meanwhile.
    assert!(took < Duration::from_micros(3 * BITS), "{took:?}");
    assert_eq!(hand.state(), QpState::Rts);
    hand.ack(hand.setup.psn[0] + 2);
    hand.now = hand.now + Duration::from_secs(10);
    hand.post(2, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
    assert_eq!(send(&mut hand, PACKETS).0, Duration::ZERO);
}

/// A QP with this local ACK timeout and one retry. It has a SEND of four packets to send, and pauses
/// for 8.7 ms after each packet.
fn pausing(timeout: u8) -> Hand {
    let mut hand = Hand::new(Setup {
        retry_cnt: 1,
        timeout,
        ..Setup::default()
    });
    let CongestionControl::Dcqcn(slow) = fixed(1) else {
        unreachable!("`fixed` returns DCQCN");
    };
    let slow = DcqcnParameters {
        rpg_min_rate: 1,
        ..slow
    };
    let control = CongestionControl::Dcqcn(slow);
    hand.node.nic.set_congestion_control(control);
    let mem = hand.mem(64 << 10);
    cnp(&mut hand);
    hand.post(1, SendOp::Send, &[mem.sge(0, 4 * 1024)]);
    hand
}

/// While a QP pauses, no response counts as late, and no retry is used up.
#[test]
fn a_pause_costs_no_retry() {
    let mut hand = pausing(Setup::default().timeout);
    let first = hand.setup.psn[0];
    send(&mut hand, 1);
    hand.nak(first, NakCode::PsnSequenceError);
    let mut again = Vec::new();
    while again.is_empty() {
        hand.timeout();
        again = hand.out_psns();
    }
    assert_eq!(again, [first]);
    assert_eq!(hand.state(), QpState::Rts);
    // No response arrives. The requester retransmits to get it at the end of pauses.
    while hand.stat(Stat::LateAnswers) < 3 {
        hand.timeout();
        hand.out();
    }
    assert_eq!(hand.state(), QpState::Rts);
    assert_eq!(hand.stat(Stat::Timeouts), 0);
}

/// A QP that pauses after each packet notices that its peer is dead, although each of its timeouts
/// ends during a pause. Seed 16201 of `roce sim` found one that retransmitted for ever.
#[test]
fn pauses_do_not_hide_a_dead_peer() {
    // A millisecond.
    let mut hand = pausing(8);
    let mut sent = 0;
    loop {
        sent += hand.out().len();
        if sent > 0 {
            break;
        }
        hand.timeout();
    }
    // The round trip is known from here on, so after each pause, a response is late.
    hand.now = hand.now + Duration::from_micros(5);
    hand.ack(hand.setup.psn[0]);
    loop {
        sent += hand.out().len();
        if hand.state() != QpState::Rts {
            break;
        }
        hand.timeout();
        assert!(sent < 100, "it never gives up");
    }
    assert_eq!(hand.stat(Stat::Timeouts), 2);
}

/// A QP that pauses after each packet still retransmits to get a late response, even while it has
/// more to send.
#[test]
fn pauses_do_not_hide_what_is_late() {
    let mut hand = Hand::new(Setup::default());
    hand.node.nic.set_congestion_control(fixed(1000));
    let mem = hand.mem(PACKETS * 1024);
    cnp(&mut hand);
    hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
    let mut sent = 0;
    while sent == 0 {
        sent += hand.out().len();
        hand.timeout();
    }
    // The round trip is known from here on.
    hand.now = hand.now + Duration::from_micros(5);
    hand.ack(hand.setup.psn[0]);
    while hand.stat(Stat::LateAnswers) == 0 {
        sent += hand.out().len();
        hand.timeout();
        assert!(sent < PACKETS / 2, "it never asked");
    }
    assert_eq!(hand.stat(Stat::Timeouts), 0);
}

/// A QP that was reset is not slow because of its earlier CNPs.
#[test]
fn reset_lifts_the_limit() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(1));
    cnp(&mut hand);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(QpState::Reset))
        .expect("legal");
    hand.advance_to(QpState::Rts);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8192)]);
    assert_eq!(hand.out().len(), 8);
}

//! How a QP starts, and the window of the algorithm by round trips.

use super::reaction::cnp;
use crate::sim::{Hand, Mem, Setup};
use roce_stack::{CongestionControl, DcqcnParameters, DelayParameters, Duration, QpKind, SendOp};

const PACKETS: usize = 200;

fn hand(kind: QpKind, control: CongestionControl) -> (Hand, Mem) {
    let mut hand = Hand::new(Setup {
        kind,
        ..Setup::default()
    });
    hand.node.nic.set_congestion_control(control);
    let mem = hand.mem(PACKETS * 1024);
    (hand, mem)
}

fn told(hand: &Hand) -> roce_stack::QpCongestion {
    let (nic, qpn) = (&hand.node.nic, hand.node.qpn);
    nic.qp_congestion(hand.now, qpn).expect("a QP")
}

fn post_all(hand: &mut Hand, mem: &Mem) {
    hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
}

/// The window starts with ten packets and doubles with acknowledgements in time; once an answer
/// takes too long, it shrinks. The last packet of each window asks.
#[test]
fn a_window_by_round_trips_begins_small() {
    let control = CongestionControl::Delay(DelayParameters::DEFAULT);
    let (mut hand, mem) = hand(QpKind::Rc, control);
    post_all(&mut hand, &mem);
    for packets in [10, 20, 40] {
        let out = hand.out();
        assert_eq!(out.len(), packets);
        assert_eq!(told(&hand).window_bytes, Some(packets as u64 * 1024));
        let last = out.last().expect("some");
        assert!(last.bth.ack_req, "otherwise there is no answer");
        hand.now = hand.now + Duration::from_micros(20);
        hand.ack(last.psn());
    }
    let last = hand.out().last().expect("some").psn();
    hand.now = hand.now + Duration::from_micros(200);
    hand.ack(last);
    let told = told(&hand);
    assert_eq!(told.min_rtt, Some(Duration::from_micros(20)));
    assert_eq!(told.smoothed_rtt, Some(Duration::from_nanos(42_500)));
    assert_eq!(
        told.target_rtt.map(|t| t > Duration::from_micros(50)),
        Some(true)
    );
    // 0.8 of 150 in 200, but no more than half.
    assert_eq!(told.window_bytes, Some(40 * 1024));
    assert_eq!((told.rate, told.alpha), (None, None));
}

/// A QP without acknowledgements has no window, and this algorithm ignores CNPs.
#[test]
fn round_trips_rule_who_has_some() {
    let control = CongestionControl::Delay(DelayParameters::DEFAULT);
    let (mut hand, mem) = hand(QpKind::Uc, control);
    cnp(&mut hand);
    post_all(&mut hand, &mem);
    assert_eq!(hand.out().len(), PACKETS);
    assert_eq!(told(&hand).window_bytes, None);
    assert_eq!(told(&hand).cnps_received, 1);
}

/// Losses reduce the window, too; another algorithm starts over.
#[test]
fn losses_close_the_window() {
    let control = CongestionControl::Delay(DelayParameters::DEFAULT);
    let (mut hand, mem) = hand(QpKind::Rc, control);
    post_all(&mut hand, &mem);
    let first = hand.out().first().expect("some").psn();
    hand.nak(first, roce_wire::NakCode::PsnSequenceError);
    assert_eq!(told(&hand).window_bytes, Some(5 * 1024));
    assert_eq!(told(&hand).min_rtt, None, "retransmissions are not timed");
    hand.out();
    hand.node
        .nic
        .set_congestion_control(CongestionControl::None);
    assert_eq!(told(&hand).window_bytes, None);
    hand.ack(first + 9);
    assert_eq!(hand.out().len(), PACKETS - 10);
}

/// A device may let all QPs start slowly; they rise to full rate, and then have no limit.
#[test]
fn a_start_rate_is_kept() {
    let slow = DcqcnParameters {
        start_rate: 100,
        ..DcqcnParameters::PAPER
    };
    let (mut hand, mem) = hand(QpKind::Uc, CongestionControl::Dcqcn(slow));
    assert_eq!(told(&hand).rate, None);
    post_all(&mut hand, &mem);
    assert_eq!(hand.out().len(), 1, "the rest waits");
    let begun = told(&hand);
    assert_eq!((begun.rate, begun.target), (Some(100e6), Some(40e9)));
    assert_eq!(begun.alpha, Some(1.0));
    hand.now = hand.now + Duration::from_secs(1);
    assert_eq!(told(&hand).rate, None, "the limit is over");
}

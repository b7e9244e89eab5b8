//! A QP with a rate limit sends no faster than the limit.

use super::reaction::{BITS, PACKETS, cnp, fixed, hand, send};
use crate::sim::{A, Hand, Mem, Pair, QKEY, Setup, to_state};
use roce_stack::{
    CongestionControl, Duration, ModifyError, QpAttributes, QpKind, QpState, RateLimit, SendOp,
    SendRequest, Stat, TxMeta,
};
use roce_wire::{Opcode, PathMtu, Qpn};

fn to_limit(limit: RateLimit) -> QpAttributes {
    QpAttributes {
        rate_limit: Some(limit),
        ..QpAttributes::default()
    }
}

fn limit(hand: &mut Hand, limit: RateLimit) {
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    let done = nic.modify_qp(hand.now, qpn, &to_limit(limit));
    done.expect("it is in RTS");
}

fn mbps(rate: u32) -> RateLimit {
    RateLimit::kilobits_per_second(rate * 1000)
}

/// The time for `packets` packets at that rate.
fn at(mbps: u64, packets: usize) -> Duration {
    Duration::from_nanos(packets as u64 * BITS * 1000 / mbps)
}

fn assert_about(took: Duration, expected: Duration) {
    assert!(took > expected * 9 / 10, "{took:?} for {expected:?}");
    assert!(took < expected * 11 / 10, "{took:?} for {expected:?}");
}

fn post_all(hand: &mut Hand, mem: &Mem) {
    hand.post(1, SendOp::Send, &[mem.sge(0, PACKETS * 1024)]);
}

/// With and without congestion control, posted requests and the responses to a READ leave at the
/// rate, in short bursts.
#[test]
fn a_program_limits_its_rate() {
    let controls = [CongestionControl::None, fixed(1000)];
    for (kind, reads) in [(QpKind::Rc, false), (QpKind::Rc, true), (QpKind::Uc, false)] {
        for control in controls {
            let (mut hand, mem) = hand(kind, control);
            limit(&mut hand, mbps(100));
            if reads {
                let len = PACKETS as u32 * 1024;
                hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, len), &[]);
            } else {
                post_all(&mut hand, &mem);
            }
            let (took, most) = send(&mut hand, PACKETS);
            assert_about(took, at(100, PACKETS));
            assert_eq!(most, 1);
        }
    }
}

/// The reply to an atomic has no data and waits for no rate. The READ response behind it waits. `roce
/// sim` found that it did not.
#[test]
fn a_read_response_behind_an_atomic_is_limited() {
    let (mut hand, mem) = hand(QpKind::Rc, CongestionControl::None);
    limit(&mut hand, mbps(100));
    hand.request(Opcode::RC_FETCH_ADD, mem.atomic(0, 1), &[]);
    let len = PACKETS as u32 * 1024;
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, len), &[]);
    let (took, most) = send(&mut hand, PACKETS + 1);
    assert_about(took, at(100, PACKETS));
    assert_eq!(most, 1);
}

#[test]
fn datagrams_are_limited_too() {
    let mut hand = Hand::new(Setup {
        kind: QpKind::Ud,
        mtu: PathMtu::Mtu1024,
        ..Setup::default()
    });
    hand.node
        .nic
        .set_congestion_control(CongestionControl::None);
    let mem = hand.mem(1024);
    let path = TxMeta {
        src: hand.setup.ip.address(1),
        dst: hand.setup.ip.address(2),
        traffic_class: 0,
        hop_limit: 64,
        version: hand.setup.ip.version(),
    };
    let ah = hand.node.nic.create_ah(hand.node.pd, path).expect("a path");
    limit(&mut hand, mbps(100));
    for wr_id in 0..50 {
        let there = ah.to(Qpn::from_bits(5), QKEY);
        hand.post_request(&SendRequest::send(mem.sge(0, 1024)).id(wr_id).to(there));
    }
    assert_about(send(&mut hand, 50).0, at(100, 50));
}

/// The lower of the two rates counts, in any order of setting them.
#[test]
fn congestion_control_and_a_limit_go_together() {
    for (limited_to, law_first) in [(200, true), (200, false), (2000, true), (2000, false)] {
        let (mut hand, mem) = hand(QpKind::Rc, fixed(1000));
        if law_first {
            cnp(&mut hand);
        }
        limit(&mut hand, mbps(limited_to));
        if !law_first {
            cnp(&mut hand);
        }
        let lower = limited_to.min(1000);
        let told = hand.node.nic.qp_congestion(hand.now, hand.node.qpn);
        let told = told.expect("a QP");
        assert_eq!(told.rate, Some(f64::from(lower) * 1e6));
        assert!(told.target.is_some(), "congestion control limits it, too");
        post_all(&mut hand, &mem);
        assert_about(send(&mut hand, PACKETS).0, at(lower.into(), PACKETS));
    }
}

/// The limit of one QP says nothing about the path: another QP to the same peer starts at the rate
/// that congestion control allows the first.
#[test]
fn neighbours_learn_of_congestion_only() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(1000));
    limit(&mut hand, mbps(1));
    cnp(&mut hand);
    let setup = Setup {
        kind: QpKind::Rc,
        timeout: 0,
        ..Setup::default()
    };
    let second = hand.node.another_qp(setup.kind, setup.queue);
    let path = setup.path();
    for step in [
        setup.init(),
        setup.rtr(path, Qpn::from_bits(7), 0),
        setup.rts(0),
    ] {
        let done = hand.node.nic.modify_qp(hand.now, second, &step);
        done.expect("legal");
    }
    hand.node.qpn = second;
    post_all(&mut hand, &mem);
    hand.out();
    let told = hand.node.nic.qp_congestion(hand.now, second);
    assert_eq!(told.expect("a QP").rate, Some(1e9));
}

/// At 10 Gbit/s, a burst of 10 us is twelve packets, and the burst after a long pause is sixty; the
/// last packet of a burst uses credit of the next. A burst that the program limits is no longer
/// than its limit, unless it is a single packet.
#[test]
fn a_burst_is_as_long_as_it_may_be() {
    const TWO: u32 = 2 * (1024 + 62);
    for (max_burst_bytes, expected, rested) in [
        (0, 12..=13, 61),
        (TWO, 1..=2, 2),
        (TWO - 1, 1..=1, 1),
        (1, 1..=1, 1),
    ] {
        let (mut hand, mem) = hand(QpKind::Rc, CongestionControl::None);
        let limited = RateLimit {
            kilobits_per_second: 10_000_000,
            max_burst_bytes,
            typical_packet_bytes: 1,
        };
        limit(&mut hand, limited);
        let (_, config) = hand.node.nic.query_qp(hand.node.qpn).expect("a QP");
        assert_eq!(config.rate_limit, limited);
        post_all(&mut hand, &mem);
        let (took, most) = send(&mut hand, PACKETS);
        assert!(took < at(10_000, PACKETS) * 11 / 10, "{took:?}");
        assert!(expected.contains(&most), "{max_burst_bytes}: {most}");
        hand.now = hand.now + Duration::from_secs(1);
        hand.ack(hand.setup.psn[0] + PACKETS as u32 - 1);
        hand.node.nic.handle_timeouts(hand.now);
        post_all(&mut hand, &mem);
        assert_eq!(hand.out().len(), rested, "{max_burst_bytes}");
    }
}

/// Removing or raising a limit in the middle of a pause ends the pause.
#[test]
fn a_pause_ends_with_its_limit() {
    for (then, all) in [(RateLimit::NONE, true), (mbps(1000), false)] {
        let (mut hand, mem) = hand(QpKind::Rc, CongestionControl::None);
        limit(&mut hand, RateLimit::kilobits_per_second(1));
        post_all(&mut hand, &mem);
        assert_eq!(send(&mut hand, 1).1, 1);
        // A packet takes 8.7 s.
        let next = hand.node.nic.next_timeout().expect("it pauses");
        assert!(next > hand.now + Duration::from_secs(8), "{next:?}");
        assert_eq!(hand.out().len(), 0);
        limit(&mut hand, then);
        let (took, most) = send(&mut hand, PACKETS - 1);
        if all {
            assert_eq!((took, most), (Duration::ZERO, PACKETS - 1));
        } else {
            assert_about(took, at(1000, PACKETS));
        }
    }
}

/// A lower limit takes effect at once, whatever the higher one had allowed.
#[test]
fn a_limit_is_lowered_in_mid_message() {
    let (mut hand, mem) = hand(QpKind::Rc, CongestionControl::None);
    limit(&mut hand, mbps(1000));
    post_all(&mut hand, &mem);
    assert_about(send(&mut hand, 50).0, at(1000, 50));
    limit(&mut hand, mbps(10));
    assert_about(send(&mut hand, 50).0, at(10, 50));
}

/// Another algorithm, or none, leaves the limit unchanged; RESET removes it.
#[test]
fn a_limit_lasts_until_reset() {
    let (mut hand, mem) = hand(QpKind::Rc, fixed(1000));
    limit(&mut hand, mbps(100));
    cnp(&mut hand);
    hand.node
        .nic
        .set_congestion_control(CongestionControl::None);
    post_all(&mut hand, &mem);
    assert_about(send(&mut hand, PACKETS).0, at(100, PACKETS));
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    let reset = nic.modify_qp(hand.now, qpn, &to_state(QpState::Reset));
    reset.expect("legal");
    hand.advance_to(QpState::Rts);
    post_all(&mut hand, &mem);
    assert_eq!(hand.out().len(), PACKETS);
}

/// Once full rate has been back for long enough, a QP that congestion control limited has only the
/// program's limit.
#[test]
fn a_limit_outlasts_congestion() {
    let CongestionControl::Dcqcn(parameters) = fixed(1000) else {
        unreachable!("`fixed` returns DCQCN");
    };
    let soon_over = CongestionControl::Dcqcn(roce_stack::DcqcnParameters {
        rpg_max_rate: 1000,
        ..parameters
    });
    let (mut hand, mem) = hand(QpKind::Rc, soon_over);
    limit(&mut hand, mbps(2000));
    cnp(&mut hand);
    hand.now = hand.now + Duration::from_secs(10);
    post_all(&mut hand, &mem);
    // It has rested; the rest leaves at the limit.
    let rest = PACKETS - hand.out().len();
    let told = hand.node.nic.qp_congestion(hand.now, hand.node.qpn);
    let told = told.expect("a QP");
    assert_eq!((told.rate, told.target), (Some(2e9), None));
    assert!(rest > PACKETS / 4, "{rest}");
    assert!(send(&mut hand, rest).0 > at(2000, rest) / 2);
}

/// Between two NICs, with a typical timeout: everything arrives, and nothing is retransmitted,
/// although a message takes longer than the timeout.
#[test]
fn a_limited_connection_loses_no_time() {
    let mut pair = Pair::new(Setup::default());
    let mem = [0, 1].map(|side| pair.mem(side, PACKETS * 1024));
    pair.modify(A, &to_limit(mbps(10)));
    let begun = pair.now;
    let there = mem[1].remote(0);
    pair.post(A, 1, SendOp::Write(there), &[mem[0].sge(0, PACKETS * 1024)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    let took = pair.now.saturating_duration_since(begun);
    assert_about(took, at(10, PACKETS));
    let counters = pair.nodes[A].nic.counters();
    assert_eq!(counters.stat(Stat::Retransmitted), 0);
    assert_eq!(counters.stat(Stat::Timeouts), 0);
}

/// A path has a rate limit, too: `static_rate`, which is set in the transition to RTR.
// shows: 9.11-static-rate
#[test]
fn a_path_has_a_rate() {
    for (program, path, lower) in [(0, 100, 100), (50, 100, 50), (200, 100, 100), (50, 0, 50)] {
        let mut hand = Hand::in_reset(Setup {
            timeout: 0,
            ..Setup::default()
        });
        hand.node
            .nic
            .set_congestion_control(CongestionControl::None);
        hand.advance_to(QpState::Init);
        let route = TxMeta {
            src: hand.setup.ip.address(1),
            dst: hand.setup.ip.address(2),
            traffic_class: 0,
            hop_limit: 64,
            version: hand.setup.ip.version(),
        };
        let to_rtr = QpAttributes {
            static_rate: Some(path * 1000),
            ..hand.setup.rtr(route, Qpn::from_bits(5), hand.setup.psn[1])
        };
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        nic.modify_qp(hand.now, qpn, &to_rtr).expect("legal");
        hand.advance_to(QpState::Rts);
        limit(&mut hand, mbps(program));
        let mem = hand.mem(PACKETS * 1024);
        post_all(&mut hand, &mem);
        assert_about(send(&mut hand, PACKETS).0, at(lower, PACKETS));
    }
}

/// The limit is an attribute of states in which a QP can send.
#[test]
fn a_limit_is_for_who_may_send() {
    let mut hand = Hand::in_reset(Setup::default());
    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        if state != QpState::Reset {
            hand.advance_to(state);
        }
        let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
        let refused = nic.modify_qp(hand.now, qpn, &to_limit(mbps(1)));
        assert!(refused.is_err(), "{state:?}");
    }
    let to_rts = QpAttributes {
        rate_limit: Some(mbps(7)),
        ..hand.setup.rts(hand.setup.psn[0])
    };
    let sqd = to_state(QpState::Sqd);
    let bad_limits = [(0, 4096, 0), (0, 0, 1024), (8, 1023, 0), (8, 1999, 2000)];
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    for step in [to_rts, to_limit(mbps(8)), sqd, to_limit(mbps(9))] {
        let done = nic.modify_qp(hand.now, qpn, &step);
        done.expect("legal");
    }
    for (kilobits_per_second, max_burst_bytes, typical_packet_bytes) in bad_limits {
        let bad = RateLimit {
            kilobits_per_second,
            max_burst_bytes,
            typical_packet_bytes,
        };
        let refused = nic.modify_qp(hand.now, qpn, &to_limit(bad));
        assert!(
            matches!(refused, Err(ModifyError::BadValue { .. })),
            "{bad:?}"
        );
    }
    let (_, config) = nic.query_qp(qpn).expect("a QP");
    assert_eq!(config.rate_limit, mbps(9));
}

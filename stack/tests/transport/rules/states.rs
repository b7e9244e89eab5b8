//! Transitions, the attributes that they need, and QPNs (IBTA 1.7, 11.2.5).

use crate::sim::node::Node;
use crate::sim::{Hand, PEER_QPN, Setup, to_state};
use roce_stack::{Event, ModifyError, QpAttributes, QpState, QueueLimits, SendOp};
use roce_wire::{ExtHeaders, NakCode, Opcode, Qpn};
use std::collections::HashSet;

fn modify(hand: &mut Hand, attributes: &QpAttributes) -> Result<(), ModifyError> {
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, attributes)
}

fn missing(from: QpState, to: QpState, attribute: &'static str) -> Result<(), ModifyError> {
    Err(ModifyError::Missing {
        from,
        to,
        attribute,
    })
}

// shows: 11.2.5.2-init-needs
#[test]
fn init_needs_the_access_rights() {
    let mut hand = Hand::in_reset(Setup::default());
    let result = modify(&mut hand, &to_state(QpState::Init));
    assert_eq!(result, missing(QpState::Reset, QpState::Init, "access"));
    assert_eq!(hand.state(), QpState::Reset);
}

// shows: 11.2.5.2-rts-needs
#[test]
fn every_attribute_of_rts_is_needed() {
    let setup = Setup::default();
    let mut hand = Hand::in_reset(setup);
    hand.advance_to(QpState::Rtr);
    let names = [
        "sq_psn",
        "timeout",
        "retry_cnt",
        "rnr_retry",
        "max_rd_atomic",
    ];
    for name in names {
        let mut attributes = setup.rts(1);
        match name {
            "sq_psn" => attributes.sq_psn = None,
            "timeout" => attributes.timeout = None,
            "retry_cnt" => attributes.retry_cnt = None,
            "rnr_retry" => attributes.rnr_retry = None,
            _ => attributes.max_rd_atomic = None,
        }
        let result = modify(&mut hand, &attributes);
        assert_eq!(result, missing(QpState::Rtr, QpState::Rts, name));
    }
}

/// An attribute that a transition does not take is refused by name, and not silently ignored.
// shows: 11.2.5.2-not-allowed
#[test]
fn attributes_out_of_place_are_refused() {
    let setup = Setup::default();
    let mut hand = Hand::in_reset(setup);
    let early = QpAttributes {
        dest_qpn: Some(PEER_QPN),
        ..setup.init()
    };
    let refused = |from, to, attribute| {
        Err(ModifyError::NotAllowed {
            from,
            to,
            attribute,
        })
    };
    let result = modify(&mut hand, &early);
    let expected = refused(QpState::Reset, QpState::Init, "dest_qpn");
    assert_eq!(result, expected);
    hand.advance_to(QpState::Rts);
    let late = QpAttributes {
        path_mtu: Some(setup.mtu),
        ..QpAttributes::default()
    };
    let expected = refused(QpState::Rts, QpState::Rts, "path_mtu");
    assert_eq!(modify(&mut hand, &late), expected);
}

/// Each bounded attribute is accepted at its bound and refused beyond it, with the bound in the
/// message.
// shows: 11.2.5.2-ranges
#[test]
fn every_range_is_kept() {
    type Set = fn(&mut QpAttributes, u8);
    let bounds: [(&str, u8, Set); 4] = [
        ("timeout", 31, |a, v| a.timeout = Some(v)),
        ("retry_cnt", 7, |a, v| a.retry_cnt = Some(v)),
        ("rnr_retry", 7, |a, v| a.rnr_retry = Some(v)),
        ("max_rd_atomic", 128, |a, v| a.max_rd_atomic = Some(v)),
    ];
    let setup = Setup::default();
    for (name, bound, set) in bounds {
        for (value, fits) in [(bound, true), (bound + 1, false)] {
            let mut hand = Hand::in_reset(setup);
            hand.advance_to(QpState::Rtr);
            let mut attributes = setup.rts(1);
            set(&mut attributes, value);
            let result = modify(&mut hand, &attributes);
            assert_eq!(result.is_ok(), fits, "{name} {value}");
            if let Err(error) = result {
                let text = error.to_string();
                let bound = bound.to_string();
                assert!(text.contains(name) && text.contains(&bound), "{text}");
            }
        }
    }
    let mut hand = Hand::in_reset(setup);
    hand.advance_to(QpState::Init);
    let path = setup.path();
    let rtr = QpAttributes {
        max_dest_rd_atomic: Some(129),
        ..setup.rtr(path, PEER_QPN, 1)
    };
    assert!(modify(&mut hand, &rtr).is_err());
}

/// RESET clears the attributes of earlier transitions.
// shows: 10.3.1-reset-attributes, 11.2.5.3-query
#[test]
fn a_reset_qp_forgets_its_attributes() {
    let mut hand = Hand::new(Setup::default());
    modify(&mut hand, &to_state(QpState::Reset)).expect("legal");
    let (state, config) = hand.node.nic.query_qp(hand.node.qpn).expect("a QP");
    assert_eq!(state, QpState::Reset);
    assert!(config.access.is_empty() && config.path.is_none());
    assert_eq!(config.dest_qpn, Qpn::from_bits(0));
    assert_eq!((config.timeout, config.retry_cnt), (0, 0));
    assert_eq!((config.max_rd_atomic, config.max_dest_rd_atomic), (0, 0));
}

/// Among this many numbers of 24 bits, pure chance would give about ten twice.
// shows: 11.2.5.1-qpn-unique
#[test]
fn no_two_qps_have_one_number() {
    const QPS: usize = 18_000;
    let mut node = Node::new(&Setup::default().node(1));
    let none = QueueLimits {
        depth: 0,
        max_sge: 0,
    };
    let mut seen = HashSet::from([node.qpn]);
    for _ in 0..QPS {
        let qpn = node.another_qp(Setup::default().kind, none);
        assert!(seen.insert(qpn), "{qpn} came twice");
        assert!(node.nic.query_qp(qpn).is_some());
    }
}

/// The drain is not reported before the last answer, whatever the state of the send queue.
// shows: 10.3.1-sqd-event
#[test]
fn drained_is_told_after_the_last_answer() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 2048)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let psns: Vec<_> = hand.out_psns();
    modify(&mut hand, &to_state(QpState::Sqd)).expect("legal");
    let drained = Event::SqDrained(hand.node.qpn);
    for (psn, expected) in [(psns[0], 0), (psns[1], 0), (psns[2], 1)] {
        hand.node.take_events();
        assert!(!hand.node.events.contains(&drained), "too early");
        hand.ack(psn);
        hand.node.take_events();
        assert_eq!(hand.node.events.len(), expected);
    }
    assert_eq!(hand.node.events, [drained]);
}

/// A query returns the present PSNs, not the initial ones.
// shows: 11.2.5.3-query
#[test]
fn a_query_tells_the_present_psns() {
    let mut hand = Hand::new(Setup::default());
    let query = |hand: &Hand| {
        let (_, config) = hand.node.nic.query_qp(hand.node.qpn).expect("a QP");
        (config.sq_psn.get(), config.rq_psn.get())
    };
    let (sends, expects) = query(&hand);
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Send, &[mem.sge(0, 2048)]);
    let packets = hand.out_psns().len() as u32;
    assert!(packets > 1);
    assert_eq!(query(&hand), (sends + packets, expects));
    // A retransmitted packet is not new.
    hand.nak(sends, NakCode::PsnSequenceError);
    assert_eq!(hand.out_psns().first(), Some(&sends));
    assert_eq!(query(&hand), (sends + packets, expects));

    hand.post_recv(2, &[mem.sge(0, 2048)]);
    hand.deliver(
        hand.bth(Opcode::RC_SEND_ONLY, expects),
        ExtHeaders::NONE,
        b"data",
    );
    assert_eq!(query(&hand), (sends + packets, expects + 1));
}

//! Receives when a QP fails, is reset or destroyed.

use super::Many;
use crate::sim::to_state;
use roce_stack::{Access, Event, QpState, WcStatus};
use roce_wire::{ExtHeaders, ImmDt, NakCode, Opcode, Syndrome};

fn modify(many: &mut Many, index: usize, state: QpState) {
    let now = many.hand.now;
    let hand = many.on(index);
    hand.node
        .nic
        .modify_qp(now, hand.node.qpn, &to_state(state))
        .expect("legal");
    hand.node.take_events();
}

fn begin(many: &mut Many) {
    let mem = many.hand.mem(4096);
    for wr_id in 0..4 {
        many.post(wr_id, &[mem.sge(0, 4096)]);
    }
    many.send(0, Opcode::RC_SEND_FIRST, &[1; 1024]);
    many.hand.out();
}

/// A QP that fails in mid-message flushes the receive that it holds and no other. The event that it
/// takes no more receives follows, as the last (11.6.3).
// shows: 10.2.9-srq-not-flushed, 11.6.3-last-wqe
#[test]
fn a_failing_qp_flushes_what_it_holds() {
    let mut many = Many::new(2);
    begin(&mut many);
    many.send(0, Opcode::RC_SEND_FIRST, &[1; 1024]);
    let nak = many.hand.out_one();
    let invalid = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(nak.syndrome(), Some(invalid));
    let qpn = many.qps[0].0;
    let done = many.hand.node.received();
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!(
        (done[0].wr_id, done[0].status, done[0].qpn),
        (0, WcStatus::WorkRequestFlushed, qpn)
    );
    let invalid = Event::QpRequestError(qpn);
    assert_eq!(many.hand.node.events, [invalid, Event::LastWqeReached(qpn)]);
    assert_eq!(many.status().posted, 3);
    // The others serve the other QP.
    many.send(1, Opcode::RC_SEND_ONLY, &[2; 8]);
    assert_eq!(many.received(), [(1, 1, true)]);
}

/// A receive that is too small for a message fails only with its QP.
#[test]
fn a_message_that_is_too_long_costs_one_receive() {
    let mut many = Many::new(2);
    many.post(1, &[]);
    many.post(2, &[]);
    many.send(0, Opcode::RC_SEND_ONLY, &[1; 8]);
    let done = many.hand.node.received();
    assert_eq!(done.len(), 1);
    assert_eq!(
        (done[0].wr_id, done[0].status),
        (1, WcStatus::LocalLengthError)
    );
    assert_eq!(many.hand.state(), QpState::Err);
    many.send(1, Opcode::RC_SEND_ONLY, &[]);
    assert_eq!(many.received(), [(2, 1, true)]);
}

/// A program that moves a QP to the error state gets the event that the QP is done with the SRQ,
/// once, whether it held a receive or not.
// shows: 10.2.9-srq-last-wqe, 11.6.3-last-wqe
#[test]
fn the_last_wqe_is_told_once() {
    for holds in [false, true] {
        let mut many = Many::new(1);
        if holds {
            begin(&mut many);
        }
        modify(&mut many, 0, QpState::Err);
        modify(&mut many, 0, QpState::Err);
        let last = Event::LastWqeReached(many.qps[0].0);
        assert_eq!(many.hand.node.events, [last]);
        assert_eq!(many.received().len(), usize::from(holds));
        // Packets that still arrive take no receive.
        let posted = many.status().posted;
        many.send(0, Opcode::RC_SEND_ONLY, &[]);
        assert_eq!(many.status().posted, posted);
        // After it is used again, it raises the event again.
        modify(&mut many, 0, QpState::Reset);
        many.on(0).advance_to(QpState::Rts);
        modify(&mut many, 0, QpState::Err);
        assert_eq!(many.hand.node.events, [last, last]);
    }
}

/// A QP without an SRQ raises no such event.
#[test]
fn a_qp_of_its_own_receives_tells_nothing() {
    let mut hand = crate::sim::Hand::new(crate::sim::Setup::default());
    hand.request(Opcode::RC_SEND_LAST, ExtHeaders::NONE, &[1]);
    assert_eq!(hand.state(), QpState::Err);
    let invalid = Event::QpRequestError(hand.node.qpn);
    assert_eq!(hand.node.events, [invalid]);
}

/// A QP that is reset or destroyed in mid-message takes its receive with it; the others, and the
/// SRQ, keep working.
#[test]
fn a_qp_can_go_in_mid_message() {
    for destroy in [false, true] {
        let mut many = Many::new(2);
        begin(&mut many);
        if destroy {
            assert!(many.hand.node.nic.destroy_qp(many.qps[0].0));
        } else {
            modify(&mut many, 0, QpState::Reset);
            many.on(0).advance_to(QpState::Rts);
            many.qps[0].1 = many.hand.setup.psn[1];
        }
        assert!(
            many.received().is_empty(),
            "the completions of the QP were dropped"
        );
        assert_eq!(many.status().posted, 3);
        many.send(1, Opcode::RC_SEND_ONLY, &[2; 8]);
        assert_eq!(many.received(), [(1, 1, true)]);
        // The rest of the message finds no QP, or a QP without state of it.
        many.send(0, Opcode::RC_SEND_ONLY, &[3; 8]);
        let expected: &[_] = if destroy { &[] } else { &[(2, 0, true)] };
        assert_eq!(many.received(), expected);
    }
}

/// A denied WRITE with immediate takes a receive that reports it.
#[test]
fn a_denied_write_with_immediate_completes_a_receive() {
    let mut many = Many::new(1);
    let mem = many.hand.node.mem_with(64, Access::LOCAL_WRITE);
    many.post(1, &[]);
    many.post(2, &[]);
    let ext = ExtHeaders {
        imm: Some(ImmDt(1)),
        ..mem.reth(0, 8)
    };
    many.request(0, Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE, ext, &[1; 8]);
    let denied = Syndrome::Nak(NakCode::RemoteAccessError);
    assert_eq!(many.hand.out_one().syndrome(), Some(denied));
    let done = many.hand.node.received();
    assert_eq!(done.len(), 1);
    assert_eq!(
        (done[0].wr_id, done[0].status),
        (1, WcStatus::LocalAccessError)
    );
    assert_eq!(many.status().posted, 1);
}

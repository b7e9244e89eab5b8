//! Receives that are missing, late, or too small.

use roce_tests::ends::{End, Ours, Theirs, connect};
use roce_tests::lab::Lab;
use roce_tests::peer::Operation;
use roce_tests::wire::{Frames, Sender};
use roce_verbs::observation::Stat;
use roce_wire::{NakCode, Syndrome};

use super::{LENGTH, RECEIVE, assert_receive, assert_writes, impatient, run, wait_for};

/// What consumes a receive.
fn consumers(to: &dyn End) -> [Operation; 2] {
    let (addr, rkey) = to.remote(0);
    let imm = 5;
    [Operation::Send, Operation::WriteImm { addr, rkey, imm }]
}

#[test]
fn a_send_too_long_for_our_receive_is_an_invalid_request() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &impatient());
    let capture = lab.capture_start().unwrap();
    ours.receive(RECEIVE, &[(0, LENGTH - 1)]);
    theirs.receive(RECEIVE, &[(0, LENGTH)]);
    assert_eq!(run(&mut theirs, Operation::Send).status, "REM_INV_REQ_ERR");
    assert_receive(&mut ours, "LOC_LEN_ERR");
    assert_receive(&mut theirs, "WR_FLUSH_ERR");
    assert_eq!((ours.state(), theirs.state()), ("ERR".into(), "ERR".into()));
    let frames = Frames::read(&capture.stop().unwrap().outside);
    assert_eq!(
        frames.syndromes(Sender::Ours, theirs.endpoint().qpn),
        [Syndrome::Nak(NakCode::InvalidRequest)]
    );
}

/// rxe deviates here: the specification requires a NAK for an invalid request and a local length
/// error of the receive. We treat rxe's NAK as specified.
#[test]
fn a_send_too_long_for_the_receive_of_rxe_is_what_its_nak_says() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &impatient());
    let capture = lab.capture_start().unwrap();
    theirs.receive(RECEIVE, &[(0, LENGTH - 1)]);
    ours.receive(RECEIVE, &[(0, LENGTH)]);
    assert_eq!(run(&mut ours, Operation::Send).status, "REM_OP_ERR");
    assert_receive(&mut ours, "WR_FLUSH_ERR");
    assert_receive(&mut theirs, "LOC_QP_OP_ERR");
    assert_eq!((ours.state(), theirs.state()), ("ERR".into(), "ERR".into()));
    let frames = Frames::read(&capture.stop().unwrap().outside);
    assert_eq!(
        frames.syndromes(Sender::Theirs, ours.endpoint().qpn),
        [Syndrome::Nak(NakCode::RemoteOperationalError)]
    );
}

#[test]
fn a_missing_receive_exhausts_rnr_retries() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for kind in 0..2 {
        let (mut ours, mut theirs) = connect(&lab, &impatient());
        let capture = lab.capture_start().unwrap();
        let operation = consumers(&theirs)[kind];
        assert_eq!(run(&mut ours, operation).status, "RNR_RETRY_EXC_ERR");
        assert_eq!((ours.state(), theirs.state()), ("ERR".into(), "RTS".into()));
        let frames = Frames::read(&capture.stop().unwrap().outside);
        let naks = frames.syndromes(Sender::Theirs, ours.endpoint().qpn);
        assert_three_times_not_ready(&naks);
        drop(ours);

        let (mut ours, mut theirs) = connect(&lab, &impatient());
        let capture = lab.capture_start().unwrap();
        let operation = consumers(&ours)[kind];
        assert_eq!(run(&mut theirs, operation).status, "RNR_RETRY_EXC_ERR");
        assert_eq!((ours.state(), theirs.state()), ("RTS".into(), "ERR".into()));
        let frames = Frames::read(&capture.stop().unwrap().outside);
        let naks = frames.syndromes(Sender::Ours, theirs.endpoint().qpn);
        assert_three_times_not_ready(&naks);
    }
}

/// One RNR NAK for the request, and one for each of two retries.
#[track_caller]
fn assert_three_times_not_ready(naks: &[Syndrome]) {
    assert_eq!(naks.len(), 3, "{naks:?}");
    for nak in naks {
        assert!(
            matches!(nak, Syndrome::RnrNak(timer) if timer.code() == 12),
            "{nak:?}"
        );
    }
}

#[test]
fn a_late_receive_is_not_too_late() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut options = impatient();
    options.rnr_retry = 7;
    let (mut ours, mut theirs) = connect(&lab, &options);
    for kind in 0..2 {
        let operation = consumers(&theirs)[kind];
        late(&mut ours, &mut theirs, operation, |ours, _| {
            wait_for(ours, Stat::RnrNaksReceived);
        });
        let operation = consumers(&ours)[kind];
        late(&mut theirs, &mut ours, operation, |_, ours| {
            wait_for(ours, Stat::RnrNaksSent);
        });
    }
    assert_writes(&mut ours, &mut theirs);
    assert_writes(&mut theirs, &mut ours);
}

/// Posts the receive after the initiator has got an RNR NAK.
fn late<I: End, T: End>(from: &mut I, to: &mut T, operation: Operation, refused: fn(&I, &T)) {
    super::post(from, 1, operation);
    refused(from, to);
    to.receive(RECEIVE, &[(0, LENGTH)]);
    assert_receive(to, "SUCCESS");
    let done = from.completion();
    assert!(done.is_success(), "{done:?}");
}

/// A key that never existed, or whose owner does not allow peers to invalidate it. The responder
/// sends no NAK for that (IBTA 1.7, 9.9.6.3, class J), so rxe gives up.
#[test]
fn a_key_that_may_not_be_invalidated_is_an_error() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut options = impatient();
    options.our_region -= roce_verbs::Access::REMOTE_INVALIDATE;
    for change in [0, 0x100] {
        let (mut ours, mut theirs): (Ours, Theirs) = connect(&lab, &options);
        ours.receive(RECEIVE, &[(0, LENGTH)]);
        let key = ours.remote(0).1 ^ change;
        let done = run(&mut theirs, Operation::SendInv { key });
        assert_eq!(done.status, "RETRY_EXC_ERR");
        assert_receive(&mut ours, "REM_INV_REQ_ERR");
        assert_eq!((ours.state(), theirs.state()), ("ERR".into(), "ERR".into()));
    }
}

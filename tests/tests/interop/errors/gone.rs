//! A peer that is gone.

use roce_tests::ends::{End, connect};
use roce_tests::lab::Lab;
use roce_tests::peer::Operation;

use super::{LENGTH, RECEIVE, impatient, post};

/// The first of three requests fails, the others and the receive are flushed.
fn assert_given_up(end: &mut dyn End, (addr, rkey): (u64, u32)) {
    end.receive(RECEIVE, &[(0, LENGTH)]);
    post(end, 1, Operation::Write { addr, rkey });
    post(end, 2, Operation::Read { addr, rkey });
    post(end, 3, Operation::Send);
    let mut done = end.completions(4);
    // Each queue keeps its order, but the order between the two queues is unspecified.
    let receive = done.iter().position(|c| c.wr_id == RECEIVE);
    let receive = done.remove(receive.expect("a receive was posted"));
    assert_eq!(receive.status, "WR_FLUSH_ERR");
    let found: Vec<_> = done.iter().map(|c| (c.wr_id, c.status.as_str())).collect();
    let flushed = "WR_FLUSH_ERR";
    assert_eq!(found, [(1, "RETRY_EXC_ERR"), (2, flushed), (3, flushed)]);
    assert_eq!(end.state(), "ERR");
}

#[test]
fn a_process_that_was_killed_is_given_up() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, theirs) = connect(&lab, &impatient());
    let remote = theirs.remote(0);
    theirs.peer.kill().unwrap();
    assert_given_up(&mut ours, remote);
}

#[test]
fn a_pair_that_failed_is_given_up() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &impatient());
    theirs.peer.fail_pair(&theirs.pair).unwrap();
    let remote = theirs.remote(0);
    assert_given_up(&mut ours, remote);
}

// trap: teardown
#[test]
fn rxe_gives_up_a_pair_of_ours_that_was_destroyed() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (ours, mut theirs) = connect(&lab, &impatient());
    let remote = ours.remote(0);
    // The device stays open, and does not answer.
    let context = ours.context.clone();
    drop(ours);
    assert_given_up(&mut theirs, remote);
    assert!(
        context
            .counters()
            .drops(roce_verbs::observation::DropReason::UnknownQp)
            > 0
    );
}

#[test]
fn rxe_gives_up_a_device_of_ours_that_was_closed() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (ours, mut theirs) = connect(&lab, &impatient());
    let remote = ours.remote(0);
    drop(ours);
    assert_given_up(&mut theirs, remote);
}

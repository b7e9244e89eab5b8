//! Fault injection: what becomes of completions that a judge decides about.

use crate::sim::{A, B, Pair, Setup, to_state};
use roce_faults::{CompletionFate, CompletionFaults, FaultyCompletions};
use roce_observe::InWords;
use roce_stack::{
    Cause, Completion, Event, InjectedFailure, PostError, QpKind, QpState, SendOp, SendRequest,
    WcStatus,
};
use std::time::Duration;

/// Decides about completions by their `wr_id`.
#[derive(Debug)]
struct Script(Vec<(u64, CompletionFate)>);

impl CompletionFaults for Script {
    fn judge(&mut self, completion: &Completion) -> CompletionFate {
        assert_eq!(completion.status, WcStatus::Success, "{completion:?}");
        let known = self.0.iter().find(|(wr_id, _)| *wr_id == completion.wr_id);
        known.map_or(CompletionFate::Deliver, |(_, verdict)| *verdict)
    }
}

/// Two connected QPs; `script` decides about the completions of `side`.
fn injected(side: usize, setup: Setup, script: &[(u64, CompletionFate)]) -> Pair {
    let mut pair = Pair::new(setup);
    let faults = FaultyCompletions::new(Script(script.to_vec()));
    pair.nodes[side].nic.intercept_completions(Box::new(faults));
    pair
}

/// A writes once for each `wr_id`.
fn write(pair: &mut Pair, wr_ids: &[u64]) {
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    for wr_id in wr_ids {
        let op = SendOp::Write(remote.remote(0));
        pair.post(A, *wr_id, op, &[local.sge(0, 8)]);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_request_reports_the_status_that_was_injected_and_the_others_are_flushed() {
    let status = WcStatus::RemoteAccessError;
    let mut pair = injected(A, Setup::default(), &[(2, CompletionFate::Fail(status))]);
    write(&mut pair, &[1, 2, 3]);
    pair.run();
    let flushed = WcStatus::WorkRequestFlushed;
    pair.assert_sent_as(A, &[(1, WcStatus::Success), (2, status), (3, flushed)]);
    assert_eq!(pair.state(A), QpState::Err);
    let node = &pair.nodes[A];
    let failure = node.nic.failure(node.qpn).expect("it has failed");
    let cause = Cause::Injected(InjectedFailure::Status { status, wr_id: 2 });
    assert_eq!((failure.cause, failure.status), (cause, Some(status)));
    let text = InWords(&cause).to_string();
    assert!(text.contains("wr_id 0x2"), "{text}");
}

#[test]
fn a_failed_send_of_an_unreliable_service_stops_sending_only() {
    let setup = Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    };
    let status = WcStatus::LocalQpOperationError;
    let mut pair = injected(A, setup, &[(1, CompletionFate::Fail(status))]);
    write(&mut pair, &[1]);
    pair.run();
    pair.assert_sent_as(A, &[(1, status)]);
    assert_eq!(pair.state(A), QpState::Sqe);
}

#[test]
fn a_receive_reports_the_status_that_was_injected() {
    let status = WcStatus::LocalLengthError;
    let mut pair = injected(B, Setup::default(), &[(1, CompletionFate::Fail(status))]);
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post_recv(B, 1, &[remote.sge(0, 64)]);
    pair.post_recv(B, 2, &[remote.sge(0, 64)]);
    pair.post(A, 9, SendOp::Send, &[local.sge(0, 8)]);
    pair.run();
    pair.assert_received_as(B, &[(1, status), (2, WcStatus::WorkRequestFlushed)]);
    assert_eq!(pair.state(B), QpState::Err);
}

#[test]
fn a_late_completion_holds_back_those_behind_it_in_its_queue_and_no_others() {
    let mut pair = injected(
        A,
        Setup::default(),
        &[(2, CompletionFate::Delay(100 * MILLISECOND))],
    );
    write(&mut pair, &[1, 2, 3]);
    let began = pair.now;
    let qpn = pair.nodes[A].qpn;
    pair.run_until(|pair| pair.nodes[A].nic.queued(qpn) == Some((0, 0)));
    // Now the second one is held back, and a message of the peer arrives.
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post_recv(A, 7, &[local.sge(0, 8)]);
    pair.post(B, 8, SendOp::Send, &[remote.sge(0, 8)]);
    pair.run_until(|pair| !pair.nodes[A].recv_cq.is_empty());
    pair.assert_sent(A, &[1]);
    pair.assert_received(A, &[7]);
    assert!(pair.now.saturating_duration_since(began) < 100 * MILLISECOND);
    pair.run();
    pair.assert_sent(A, &[2, 3]);
    let took = pair.now.saturating_duration_since(began);
    assert!(took >= 100 * MILLISECOND, "{took:?}");
    assert_eq!(pair.state(A), QpState::Rts);
}

#[test]
fn late_completions_come_before_those_of_a_failure() {
    let status = WcStatus::RetryExceeded;
    let script = [
        (1, CompletionFate::Delay(MILLISECOND)),
        (2, CompletionFate::Fail(status)),
    ];
    let mut pair = injected(A, Setup::default(), &script);
    write(&mut pair, &[1, 2, 3]);
    pair.run();
    let flushed = WcStatus::WorkRequestFlushed;
    pair.assert_sent_as(A, &[(1, WcStatus::Success), (2, status), (3, flushed)]);
}

#[test]
fn a_lost_completion_never_comes_and_its_request_occupies_the_queue() {
    let mut pair = injected(A, Setup::default(), &[(2, CompletionFate::Lose)]);
    write(&mut pair, &[1, 2, 3]);
    pair.run();
    pair.assert_sent(A, &[1, 3]);
    let depth = Setup::default().queue.depth;
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    let element = [local.sge(0, 8)];
    let request = SendRequest::new(4, SendOp::Write(remote.remote(0)), &element[..]);
    let post = |pair: &mut Pair| {
        let node = &mut pair.nodes[A];
        node.nic.post_send(pair.now, node.qpn, &request)
    };
    for _ in 1..depth {
        assert_eq!(post(&mut pair), Ok(()));
    }
    assert_eq!(post(&mut pair), Err(PostError::QueueFull { depth }));
    pair.modify(A, &to_state(QpState::Reset));
    pair.run();
    pair.assert_sent(A, &[]);
}

#[test]
fn late_completions_of_a_qp_that_is_destroyed_never_come() {
    let mut pair = injected(
        A,
        Setup::default(),
        &[(1, CompletionFate::Delay(MILLISECOND))],
    );
    write(&mut pair, &[1]);
    let qpn = pair.nodes[A].qpn;
    pair.run_until(|pair| pair.nodes[A].nic.queued(qpn) == Some((0, 0)));
    let node = &mut pair.nodes[A];
    assert!(node.nic.next_timeout().is_some());
    assert!(node.nic.destroy_qp(node.qpn));
    assert_eq!(node.nic.next_timeout(), None);
    pair.run();
    pair.assert_sent(A, &[]);
}

#[test]
fn a_cq_overruns_by_injection() {
    let mut pair = injected(A, Setup::default(), &[(2, CompletionFate::Overrun)]);
    write(&mut pair, &[1, 2, 3]);
    pair.run();
    assert_eq!(pair.state(A), QpState::Err);
    let node = &mut pair.nodes[A];
    let cq = node.send_cq.id();
    let failure = node.nic.failure(node.qpn).expect("it has failed");
    let overrun = InjectedFailure::Overrun(cq);
    assert_eq!(failure.cause, Cause::Injected(overrun));
    node.take_events();
    assert!(node.events.contains(&Event::CqError(cq)));
    assert!(node.events.contains(&Event::QpFatal(node.qpn)));
    // The completion before it, and those that are flushed after it, were in the queue.
    while let Ok(Some(completion)) = node.send_cq.poll() {
        assert_ne!(completion.wr_id, 2);
    }
    assert!(node.send_cq.poll().is_err());
}

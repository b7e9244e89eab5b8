//! The result of faulty requests at both ends: the completion status that the specification
//! requires, and the code on the wire.

mod access;
mod gone;
mod receive;

use std::time::Instant;

use roce_tests::ends::{COMPLETION_TIMEOUT, End, Options, Ours};
use roce_tests::peer::{Completion, Operation};
use roce_verbs::observation::Stat;

/// The `wr_id` of receives whose completion is checked.
const RECEIVE: u64 = 33;

/// The length of all operations except atomics.
const LENGTH: u32 = 100;

/// Options with few and short retries: two, after 67 ms each.
fn impatient() -> Options {
    Options {
        retry_count: 2,
        rnr_retry: 2,
        ..Options::default()
    }
}

/// Posts an operation of [`LENGTH`] bytes, or of 8 if it is an atomic.
fn post(end: &mut dyn End, wr_id: u64, operation: Operation) {
    let atomic = matches!(
        operation,
        Operation::FetchAdd { .. } | Operation::CompareSwap { .. }
    );
    end.post(wr_id, operation, &[(0, if atomic { 8 } else { LENGTH })]);
}

/// Posts an operation and waits for its completion.
fn run(end: &mut dyn End, operation: Operation) -> Completion {
    post(end, 1, operation);
    end.completion()
}

/// Checks the status of a receive.
#[track_caller]
fn assert_receive(end: &mut dyn End, status: &str) {
    let done = end.completion();
    let found = (done.wr_id, done.status.as_str());
    assert_eq!(found, (RECEIVE, status), "of {}", end.name());
}

/// Checks that a WRITE from one end to the other still succeeds.
fn assert_writes(from: &mut dyn End, to: &mut dyn End) {
    let (addr, rkey) = to.remote(0);
    let done = run(from, Operation::Write { addr, rkey });
    assert!(done.is_success(), "{done:?} of {}", from.name());
}

/// Waits until our end has counted `stat`.
fn wait_for(ours: &Ours, stat: Stat) {
    let deadline = Instant::now() + COMPLETION_TIMEOUT;
    while ours.context.counters().stat(stat) == 0 {
        assert!(Instant::now() < deadline, "no {} in time", stat.label());
        ours.context.drive();
    }
}

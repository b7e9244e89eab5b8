//! Completion counters: which operations of a QP they count, when, and to which QPs they can be
//! attached.

use crate::sim::{A, B, Fate, Pair, QKEY, Setup, to_state};
use crate::ud::destination;
use roce_faults::{CompletionFate, CompletionFaults, FaultyCompletions};
use roce_stack::{
    AttachCounterError, Completion, CompletionCounter, CountedOps, CounterUnit, QpKind, QpState,
    SendFlags, SendOp, SendRequest, Stat, WcStatus,
};
use std::sync::Arc;
use std::time::Duration;

const REQUESTS: CounterUnit = CounterUnit::Requests;

/// A counter of these operations of the QP of `side`.
fn counter(
    pair: &mut Pair,
    side: usize,
    ops: CountedOps,
    unit: CounterUnit,
) -> Arc<CompletionCounter> {
    let counter = Arc::new(CompletionCounter::new(unit));
    let node = &mut pair.nodes[side];
    let attached = node.nic.attach_completion_counter(node.qpn, &counter, ops);
    attached.expect("in RESET");
    counter
}

/// A counter of each operation, in the order of `CountedOps::all()`.
fn counters(pair: &mut Pair, side: usize, unit: CounterUnit) -> Vec<Arc<CompletionCounter>> {
    let ops = CountedOps::all().iter();
    ops.map(|op| counter(pair, side, op, unit)).collect()
}

fn succeeded(counters: &[Arc<CompletionCounter>]) -> Vec<u64> {
    counters.iter().map(|counter| counter.succeeded()).collect()
}

fn failed(counters: &[Arc<CompletionCounter>]) -> Vec<u64> {
    counters.iter().map(|counter| counter.failed()).collect()
}

fn connect(pair: &mut Pair) {
    pair.connect(A);
    pair.connect(B);
}

/// Two SENDs, a WRITE with immediate, three WRITEs, four READs, an atomic, all unsignaled but the
/// last.
fn everything(pair: &mut Pair) {
    let (local, remote) = (pair.mem(A, 5000), pair.mem(B, 5000));
    for wr_id in 0..3 {
        pair.post_recv(B, wr_id, &[remote.sge(0, 4000)]);
    }
    let mut ops = vec![(SendOp::Send, 10), (SendOp::Send, 3000)];
    let with_imm = SendOp::WriteImm(remote.remote(0), 5);
    ops.push((with_imm, 20));
    ops.extend([(SendOp::Write(remote.remote(0)), 2500); 3]);
    ops.extend([(SendOp::Read(remote.remote(0)), 5000); 4]);
    for (op, len) in ops {
        pair.post_with(A, 0, op, &[local.sge(0, len)], SendFlags::empty());
    }
    let add = SendOp::FetchAdd {
        remote: remote.remote(0),
        add: 1,
    };
    pair.post(A, 9, add, &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[9]);
    pair.assert_received(B, &[0, 1, 2]);
}

fn quiet() -> Setup {
    Setup {
        signal_all: false,
        ..Setup::default()
    }
}

/// Unsignaled requests count, and atomics count nowhere.
#[test]
fn each_operation_counts_for_its_counter_at_both_ends() {
    let mut pair = Pair::unconnected(quiet());
    let [here, there] = [A, B].map(|side| counters(&mut pair, side, REQUESTS));
    connect(&mut pair);
    everything(&mut pair);
    // SEND, RECV, READ, WRITE
    assert_eq!(succeeded(&here), [2, 0, 4, 4]);
    assert_eq!(succeeded(&there), [0, 3, 0, 0]);
    assert_eq!([failed(&here), failed(&there)], [[0; 4], [0; 4]]);
}

#[test]
fn bytes_are_counted_instead_of_operations() {
    let mut pair = Pair::unconnected(quiet());
    let unit = CounterUnit::Bytes;
    let [here, there] = [A, B].map(|side| counters(&mut pair, side, unit));
    connect(&mut pair);
    everything(&mut pair);
    assert_eq!(succeeded(&here), [3010, 0, 20_000, 7520]);
    assert_eq!(succeeded(&there), [0, 3030, 0, 0]);
}

/// A lost packet, response or acknowledgement makes the other end repeat a request, whole or in part.
#[test]
fn what_is_repeated_counts_once() {
    for lost in 0..60 {
        let mut pair = Pair::unconnected(quiet());
        let requests = counters(&mut pair, A, REQUESTS);
        let bytes = counters(&mut pair, B, CounterUnit::Bytes);
        connect(&mut pair);
        let (side, lost) = ([A, B][lost % 2], lost / 2);
        let mut seen = 0;
        pair.links[side].script(move |_| {
            seen += 1;
            if seen - 1 == lost {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        everything(&mut pair);
        assert_eq!(succeeded(&requests), [2, 0, 4, 4], "{side}: {lost}");
        assert_eq!(succeeded(&bytes), [0, 3030, 0, 0], "{side}: {lost}");
    }
}

/// The peer refuses the first request, and those behind it are flushed.
#[test]
fn refused_and_flushed_requests_are_failures() {
    for with_imm in [false, true] {
        let mut pair = Pair::unconnected(quiet());
        let [here, there] = [A, B].map(|side| counters(&mut pair, side, REQUESTS));
        connect(&mut pair);
        let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
        pair.post_recv(B, 1, &[remote.sge(0, 64)]);
        pair.post_recv(B, 2, &[remote.sge(0, 64)]);
        let beyond = remote.remote(60);
        let write = match with_imm {
            true => SendOp::WriteImm(beyond, 1),
            false => SendOp::Write(beyond),
        };
        let flags = SendFlags::empty();
        pair.post_with(A, 1, write, &[local.sge(0, 8)], flags);
        pair.post_with(A, 2, SendOp::Send, &[local.sge(0, 8)], flags);
        pair.run();
        // Posted in ERR, both are flushed.
        pair.post_with(A, 3, SendOp::Send, &[local.sge(0, 8)], flags);
        pair.post_recv(A, 4, &[local.sge(0, 8)]);
        assert_eq!(failed(&here), [2, 1, 0, 1]);
        assert_eq!(failed(&there), [0, 2, 0, 0]);
        assert_eq!([succeeded(&here), succeeded(&there)], [[0; 4], [0; 4]]);
    }
}

/// The CQs have no room for most completions. Each request is counted all the same.
#[test]
fn requests_whose_completions_are_lost_in_an_overrun_count() {
    let mut pair = Pair::unconnected(Setup {
        cq_entries: 3,
        ..Setup::default()
    });
    let here = counters(&mut pair, A, REQUESTS);
    connect(&mut pair);
    let (local, remote) = (pair.mem(A, 8), pair.mem(B, 8));
    for wr_id in 0..8 {
        pair.post_recv(A, wr_id, &[local.sge(0, 8)]);
        pair.post(
            A,
            wr_id,
            SendOp::Write(remote.remote(0)),
            &[local.sge(0, 8)],
        );
    }
    pair.run();
    assert_eq!(pair.state(A), QpState::Err);
    let counts = (succeeded(&here), failed(&here));
    // The WRITE whose completion overran the CQ succeeded, and the others were flushed.
    assert_eq!(counts, (vec![0, 0, 0, 4], vec![0, 8, 0, 4]));
}

/// An RNR NAK lets the peer try again: the message fails only when it no longer does.
#[test]
fn a_message_that_has_to_wait_for_a_receive_counts_when_it_has_arrived() {
    let mut pair = Pair::unconnected(Setup::default());
    let [here, there] = [A, B].map(|side| counters(&mut pair, side, REQUESTS));
    connect(&mut pair);
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    let write = SendOp::WriteImm(remote.remote(0), 1);
    pair.post(A, 1, write, &[local.sge(0, 8)]);
    pair.run_until(|pair| pair.nodes[B].nic.counters().stat(Stat::RnrNaksSent) > 1);
    assert_eq!([failed(&there), succeeded(&there)], [[0; 4], [0; 4]]);
    pair.post_recv(B, 1, &[remote.sge(0, 64)]);
    pair.run();
    assert_eq!(succeeded(&here), [0, 0, 0, 1]);
    assert_eq!(succeeded(&there), [0, 1, 0, 0]);
    assert_eq!([failed(&here), failed(&there)], [[0; 4], [0; 4]]);
}

#[test]
fn unreliable_services_count_too() {
    for kind in [QpKind::Uc, QpKind::Ud] {
        let mut pair = Pair::unconnected(Setup {
            kind,
            ..Setup::default()
        });
        let [here, there] = [A, B].map(|side| counters(&mut pair, side, CounterUnit::Bytes));
        connect(&mut pair);
        let (local, remote) = (pair.mem(A, 4000), pair.mem(B, 4000));
        pair.post_recv(B, 1, &[remote.sge(0, 4000)]);
        pair.post_recv(B, 2, &[remote.sge(0, 4000)]);
        if kind == QpKind::Ud {
            let (dst, qpn) = (pair.nodes[B].address, pair.nodes[B].qpn);
            let to_there = destination(&pair.nodes[A], dst, qpn, QKEY);
            let request = SendRequest::new(1, SendOp::Send, local.sge(0, 100));
            pair.post_request(A, &request.to(to_there));
            pair.run();
            // The receive begins with the network header.
            assert_eq!(succeeded(&here), [100, 0, 0, 0]);
            assert_eq!(succeeded(&there), [0, 140, 0, 0]);
        } else {
            pair.post(A, 1, SendOp::Send, &[local.sge(0, 100)]);
            let write = SendOp::WriteImm(remote.remote(0), 1);
            pair.post(A, 2, write, &[local.sge(0, 3000)]);
            pair.post(A, 3, SendOp::Write(remote.remote(0)), &[local.sge(0, 7)]);
            pair.run();
            assert_eq!(succeeded(&here), [100, 0, 0, 3007]);
            assert_eq!(succeeded(&there), [0, 3100, 0, 0]);
        }
    }
}

/// One counter may have several operations and several QPs, but an operation only one counter.
#[test]
fn no_operation_of_a_qp_has_two_counters() {
    use CountedOps as Ops;
    let mut pair = Pair::unconnected(quiet());
    let both = counter(&mut pair, A, Ops::SEND | Ops::RECV, REQUESTS);
    let node = &mut pair.nodes[A];
    let other = Arc::new(CompletionCounter::new(REQUESTS));
    for counter in [&both, &other] {
        let ops = Ops::RECV | Ops::WRITE;
        let refused = node.nic.attach_completion_counter(node.qpn, counter, ops);
        assert_eq!(refused, Err(AttachCounterError::Counted(Ops::RECV)));
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains(" RECV "), "{text}");
    }
    let none = node
        .nic
        .attach_completion_counter(node.qpn, &other, Ops::empty());
    assert_eq!(none, Err(AttachCounterError::NoOperation));
    let writes = node
        .nic
        .attach_completion_counter(node.qpn, &both, Ops::WRITE);
    assert_eq!(writes, Ok(()));
    let node = &mut pair.nodes[B];
    let ops = Ops::RECV;
    let attached = node.nic.attach_completion_counter(node.qpn, &both, ops);
    assert_eq!(attached, Ok(()));
    connect(&mut pair);
    everything(&mut pair);
    // Two SENDs and four WRITEs of A, three receives of B.
    assert_eq!(both.succeeded(), 9);
}

/// A QP that may have begun to work takes no counter. One that is reset keeps those that it has.
#[test]
fn a_counter_stays_until_the_qp_is_destroyed() {
    let mut pair = Pair::unconnected(Setup::default());
    let counter = counter(&mut pair, A, CountedOps::SEND, REQUESTS);
    pair.modify(A, &pair.setup.init());
    let node = &mut pair.nodes[A];
    let (nic, qpn, other) = (&mut node.nic, node.qpn, CountedOps::WRITE);
    assert_eq!(nic.attach_completion_counter(qpn, &counter, other), Ok(()));
    pair.enter_rtr(A);
    for state in [QpState::Rtr, QpState::Err] {
        if state == QpState::Err {
            pair.modify(A, &to_state(state));
        }
        let node = &mut pair.nodes[A];
        let late = CountedOps::READ;
        let refused = node.nic.attach_completion_counter(node.qpn, &counter, late);
        assert_eq!(refused, Err(AttachCounterError::WrongState { state }));
    }
    pair.modify(A, &to_state(QpState::Reset));
    connect(&mut pair);
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    assert_eq!(counter.succeeded(), 1);
    assert_eq!(Arc::strong_count(&counter), 3, "two attachments");
    let node = &mut pair.nodes[A];
    node.nic.destroy_qp(node.qpn);
    assert_eq!(Arc::strong_count(&counter), 1);
    let gone = node
        .nic
        .attach_completion_counter(node.qpn, &counter, CountedOps::SEND);
    assert_eq!(gone, Err(AttachCounterError::UnknownQp(node.qpn)));
}

/// Delays the first completion, and fails the second.
#[derive(Debug)]
struct LateThenFailed;

impl CompletionFaults for LateThenFailed {
    fn judge(&mut self, completion: &Completion) -> CompletionFate {
        match completion.wr_id {
            1 => CompletionFate::Delay(Duration::from_millis(1)),
            _ => CompletionFate::Fail(WcStatus::RemoteAccessError),
        }
    }
}

/// A counter counts the status that the CQ reports.
#[test]
fn injected_faults_are_counted_as_they_are_delivered() {
    let mut pair = Pair::unconnected(Setup::default());
    let counter = counter(&mut pair, A, CountedOps::WRITE, REQUESTS);
    connect(&mut pair);
    let faults = FaultyCompletions::new(LateThenFailed);
    pair.nodes[A].nic.intercept_completions(Box::new(faults));
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    let write = SendOp::Write(remote.remote(0));
    pair.post(A, 1, write, &[local.sge(0, 8)]);
    let began = pair.now;
    pair.run_until(|pair| pair.nodes[A].nic.queued(pair.nodes[A].qpn) == Some((0, 0)));
    assert_eq!((counter.succeeded(), counter.failed()), (0, 0));
    pair.run();
    assert!(pair.now >= began + roce_stack::Duration::from_millis(1));
    assert_eq!((counter.succeeded(), counter.failed()), (1, 0));
    pair.post(A, 2, write, &[local.sge(0, 8)]);
    pair.run();
    assert_eq!((counter.succeeded(), counter.failed()), (1, 1));
}

//! The oracle must detect impossible events: each test reports one false event.

mod cqs;
mod keys;
mod paths;
mod pool;

use super::*;
use roce_stack::{Buffer, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

const LEN: usize = 256;

struct Fixture {
    oracle: Oracle,
    /// Out, target and inbox of the flow from side 0 to side 1.
    memory: [Arc<Buffer>; 3],
}

fn area() -> (Arc<Buffer>, Area) {
    let buffer = Arc::new(Buffer::new(LEN).expect("a buffer"));
    (Arc::clone(&buffer), Area::new(buffer))
}

fn areas() -> ([Arc<Buffer>; 3], FlowAreas) {
    let ((a, out), (b, target), (c, inbox)) = (area(), area(), area());
    ([a, b, c], FlowAreas { out, target, inbox })
}

fn fixture() -> Fixture {
    let mut oracle = Oracle::new();
    let (words, _) = area();
    oracle.words.push(Words::new(words, 0, 2));
    let (memory, forth) = areas();
    oracle.connected(0, Ends::default(), Causes::default(), [forth, areas().1]);
    Fixture { oracle, memory }
}

fn bytes(len: usize, value: u8) -> Bytes {
    vec![value; len].into()
}

fn send(effect: Effect, opcode: WcOpcode, len: u32) -> PostedSend {
    PostedSend {
        effect,
        lands_at: 0,
        signaled: true,
        fence: false,
        key: None,
        invalidates: None,
        fails: false,
        fails_locally: false,
        denied: false,
        statuses: &[],
        pool: None,
        opcode,
        len,
    }
}

fn write(at: usize, value: u8) -> PostedSend {
    let bytes = bytes(16, value);
    let imm = None;
    send(Effect::Write { at, bytes, imm }, WcOpcode::RdmaWrite, 16)
}

fn message(value: u8) -> PostedSend {
    let bytes = bytes(16, value);
    let imm = Some(7);
    send(Effect::Send { bytes, imm }, WcOpcode::Send, 16)
}

fn read(at: usize) -> PostedSend {
    let range = at..at + 16;
    PostedSend {
        key: Some(77),
        ..send(Effect::Read { range, to: 0 }, WcOpcode::RdmaRead, 16)
    }
}

fn increment() -> PostedSend {
    let effect = Effect::Word {
        host: 0,
        word: 0,
        op: WordOp::Increment,
    };
    send(effect, WcOpcode::FetchAdd, 8)
}

fn done(wr_id: u64, status: WcStatus, opcode: WcOpcode, byte_len: u32) -> Completion {
    Completion {
        wr_id,
        status,
        opcode,
        byte_len,
        qpn: Qpn::from_bits(5),
        imm: None,
        invalidated_rkey: None,
        source: None,
    }
}

impl Fixture {
    fn post(&mut self, posted: PostedSend) {
        self.oracle.posted_send(0, 0, posted);
    }

    fn place(&self, which: usize, at: usize, value: u8, len: usize) {
        self.memory[which]
            .write(at, &vec![value; len])
            .expect("in the buffer");
    }

    fn sent(&mut self, wr_id: u64, opcode: WcOpcode, len: u32) -> Verdict {
        let done = done(wr_id, WcStatus::Success, opcode, len);
        self.oracle.completed(0, 0, &done)
    }

    fn failed(&mut self, wr_id: u64, status: WcStatus) -> Verdict {
        let done = done(wr_id, status, WcOpcode::RdmaWrite, 16);
        self.oracle.completed(0, 0, &done)
    }

    fn received(&mut self, wr_id: u64, imm: Option<u32>, len: u32) -> Verdict {
        let completion = Completion {
            imm,
            ..done(wr_id, WcStatus::Success, WcOpcode::Recv, len)
        };
        self.oracle.completed(0, 1, &completion)
    }

    fn check_idle(&mut self, sends: usize, receives: usize) -> Verdict {
        self.oracle
            .check_idle(|_, side| Some(if side == 0 { (sends, 0) } else { (0, receives) }))
    }
}

#[track_caller]
pub(super) fn assert_violation(verdict: Verdict, about: &str) {
    let Err(Violation(what)) = verdict else {
        panic!("no violation about {about:?}");
    };
    assert!(what.contains(about), "{what}");
}

#[test]
fn legal_events_pass() {
    let mut f = fixture();
    f.post(write(32, 1));
    f.place(1, 32, 1, 16);
    f.sent(0, WcOpcode::RdmaWrite, 16).expect("legal");
    f.oracle.posted_recv(0, 1, PostedRecv { at: 8, len: 20 });
    f.post(message(2));
    f.place(2, 8, 2, 16);
    f.received(0, Some(7), 16).expect("legal");
    f.sent(1, WcOpcode::Send, 16).expect("legal");
    f.post(read(32));
    f.place(0, 0, 1, 16);
    f.sent(2, WcOpcode::RdmaRead, 16).expect("legal");
    f.check_idle(0, 0).expect("legal");
}

#[test]
fn a_write_that_was_not_placed() {
    let mut f = fixture();
    f.post(write(32, 1));
    f.place(1, 32, 1, 15);
    assert_violation(f.sent(0, WcOpcode::RdmaWrite, 16), "byte 47");
}

#[test]
fn a_byte_that_no_request_wrote() {
    let mut f = fixture();
    f.post(write(32, 1));
    f.place(1, 32, 1, 17);
    f.sent(0, WcOpcode::RdmaWrite, 16).expect("legal so far");
    assert_violation(f.check_idle(0, 0), "byte 48");
}

#[test]
fn an_older_write_over_a_newer_one() {
    let mut f = fixture();
    for value in [1, 2] {
        f.post(write(32, value));
        f.place(1, 32, value, 16);
    }
    f.sent(0, WcOpcode::RdmaWrite, 16).expect("legal");
    f.place(1, 32, 1, 16);
    assert_violation(f.sent(1, WcOpcode::RdmaWrite, 16), "byte 32");
}

#[test]
fn completions_out_of_order_or_twice_or_never() {
    let mut f = fixture();
    f.post(write(32, 0));
    f.post(write(64, 0));
    assert_violation(
        f.sent(1, WcOpcode::RdmaWrite, 16),
        "request 0 has not completed",
    );
    let mut f = fixture();
    f.post(write(32, 0));
    f.sent(0, WcOpcode::RdmaWrite, 16).expect("legal");
    assert_violation(
        f.sent(0, WcOpcode::RdmaWrite, 16),
        "a completion for request 0",
    );
    let mut f = fixture();
    f.post(write(32, 0));
    assert_violation(f.check_idle(0, 0), "request 0 never completed");
}

#[test]
fn a_failure_without_cause() {
    for status in [
        WcStatus::RetryExceeded,
        WcStatus::RnrRetryExceeded,
        WcStatus::RemoteAccessError,
        WcStatus::WorkRequestFlushed,
        WcStatus::BadResponse,
    ] {
        let mut f = fixture();
        f.post(write(32, 1));
        assert_violation(f.failed(0, status), "has no cause");
    }
}

#[test]
fn success_after_a_failure_and_success_of_an_invalid_request() {
    let mut f = fixture();
    f.post(write(32, 0));
    f.post(write(64, 0));
    f.oracle.mark_may_be_broken(0, 1);
    f.failed(0, WcStatus::RetryExceeded).expect("a cause");
    assert_violation(f.sent(1, WcOpcode::RdmaWrite, 16), "must be flushed");
    let mut f = fixture();
    f.post(PostedSend {
        fails: true,
        ..write(32, 0)
    });
    assert_violation(f.sent(0, WcOpcode::RdmaWrite, 16), "must be refused");
}

#[test]
fn a_receive_of_the_wrong_length_immediate_or_bytes() {
    let with_message = || {
        let mut f = fixture();
        f.oracle.posted_recv(0, 1, PostedRecv { at: 8, len: 20 });
        f.post(message(2));
        f.place(2, 8, 2, 16);
        f
    };
    assert_violation(with_message().received(0, Some(7), 15), "16 bytes");
    assert_violation(with_message().received(0, Some(8), 16), "immediate Some(7)");
    assert_violation(with_message().received(1, Some(7), 16), "instead of 0");
    let f = &mut with_message();
    f.place(2, 24, 2, 1);
    assert_violation(f.received(0, Some(7), 16), "byte 24");
}

#[test]
fn a_read_that_returns_bytes_never_there_or_from_behind_a_fence() {
    let mut f = fixture();
    f.post(read(32));
    f.place(0, 0, 9, 16);
    assert_violation(f.sent(0, WcOpcode::RdmaRead, 16), "never there");
    for fence in [false, true] {
        let mut f = fixture();
        f.post(read(32));
        let later = write(32, 3);
        f.post(PostedSend { fence, ..later });
        f.place(0, 0, 3, 16);
        let verdict = f.sent(0, WcOpcode::RdmaRead, 16);
        if fence {
            assert_violation(verdict, "never there");
        } else {
            verdict.expect("it may have come first");
        }
    }
}

#[test]
fn memory_that_changes_after_it_was_deregistered() {
    let mut f = fixture();
    f.post(write(32, 1));
    let target = AreaName::Target;
    f.oracle.deregistered(0, 0, target).expect("legal");
    f.place(1, 32, 1, 16);
    assert_violation(f.check_idle(1, 0), "request 0 never completed");
    let mut f = fixture();
    f.post(write(32, 1));
    f.oracle.deregistered(0, 0, target).expect("legal");
    f.place(1, 32, 1, 16);
    f.failed(0, WcStatus::RemoteAccessError).expect("a cause");
    assert_violation(f.check_idle(0, 0), "target: byte 32");
}

#[test]
fn an_addition_executed_twice_or_never_or_in_an_impossible_order() {
    let run = |fetched: [u64; 2], last: u64| {
        let mut f = fixture();
        let word = Arc::new(Buffer::new(16).expect("a buffer"));
        f.oracle.words = vec![Words::new(Arc::clone(&word), 0, 2)];
        for (wr_id, old) in (0..).zip(fetched) {
            f.post(increment());
            f.memory[0]
                .write(0, &old.to_ne_bytes())
                .expect("in the buffer");
            f.sent(wr_id, WcOpcode::FetchAdd, 8).expect("legal so far");
        }
        word.write(0, &last.to_ne_bytes()).expect("in the buffer");
        f.check_idle(0, 0)
    };
    run([0, 1], 2).expect("legal");
    assert_violation(run([0, 1], 3), "3 additions were executed");
    assert_violation(run([0, 1], 1), "1 additions were executed");
    assert_violation(run([0, 0], 2), "two additions fetched 0");
    assert_violation(run([1, 0], 2), "posted after a later one");
}

#[test]
fn a_swap_that_returns_a_value_never_there() {
    let mut f = fixture();
    let word = Arc::new(Buffer::new(16).expect("a buffer"));
    f.oracle.words = vec![Words::new(Arc::clone(&word), 0, 2)];
    let op = WordOp::Swap {
        compare: 0,
        swap: 5,
    };
    let effect = Effect::Word {
        host: 0,
        word: 1,
        op,
    };
    f.post(send(effect, WcOpcode::CompareSwap, 8));
    f.memory[0]
        .write(0, &3_u64.to_ne_bytes())
        .expect("in the buffer");
    f.sent(0, WcOpcode::CompareSwap, 8).expect("legal so far");
    assert_violation(f.check_idle(0, 0), "0x3 was seen");
}

#[test]
fn requests_left_in_an_idle_queue() {
    let mut f = fixture();
    assert_violation(f.check_idle(1, 0), "1 sends and 0 receives are queued");
    assert_violation(fixture().check_idle(0, 1), "should be 0 and 0");
}

fn invalidate() -> PostedSend {
    PostedSend {
        key: Some(77),
        invalidates: Some(77),
        fence: true,
        ..send(
            Effect::Send {
                bytes: bytes(16, 2),
                imm: None,
            },
            WcOpcode::Send,
            16,
        )
    }
}

#[test]
fn an_invalidation_without_its_key_or_with_the_key_still_valid() {
    let mut f = fixture();
    f.oracle.posted_recv(0, 1, PostedRecv { at: 8, len: 20 });
    f.post(invalidate());
    f.place(2, 8, 2, 16);
    assert_violation(f.received(0, None, 16), "name key 77");
    let mut f = fixture();
    f.post(invalidate());
    f.post(PostedSend {
        fails: true,
        statuses: &[WcStatus::RemoteAccessError],
        ..write(32, 1)
    });
    f.sent(0, WcOpcode::Send, 16).expect("legal");
    assert_violation(f.sent(1, WcOpcode::RdmaWrite, 16), "must be refused");
}

#[test]
fn a_read_may_lose_its_key_to_a_later_request_without_a_fence() {
    for fence in [false, true] {
        let mut f = fixture();
        f.post(read(32));
        f.post(PostedSend {
            fence,
            ..invalidate()
        });
        let lost = Completion {
            opcode: WcOpcode::RdmaRead,
            ..done(0, WcStatus::RemoteAccessError, WcOpcode::RdmaRead, 16)
        };
        let verdict = f.oracle.completed(0, 0, &lost);
        match fence {
            true => assert_violation(verdict, "has no cause"),
            false => verdict.expect("the key may have gone first"),
        }
    }
}

#[test]
fn a_flush_before_its_write_and_a_repeated_atomic_write() {
    let mut f = fixture();
    f.post(write(32, 1));
    f.post(send(Effect::Flush, WcOpcode::Flush, 0));
    f.place(1, 32, 1, 15);
    assert_violation(f.sent(0, WcOpcode::RdmaWrite, 16), "byte 47");
    let mut f = fixture();
    f.post(PostedSend {
        signaled: false,
        ..write(32, 1)
    });
    f.post(send(Effect::Flush, WcOpcode::Flush, 0));
    assert_violation(f.sent(1, WcOpcode::Flush, 0), "byte 32");
    let mut f = fixture();
    for value in [1, 2] {
        f.post(PostedSend {
            opcode: WcOpcode::AtomicWrite,
            ..write(32, value)
        });
        f.place(1, 32, value, 16);
        f.sent(u64::from(value) - 1, WcOpcode::AtomicWrite, 16)
            .expect("legal");
    }
    f.place(1, 32, 1, 16);
    assert_violation(f.check_idle(0, 0), "byte 32");
}

//! Violations that the oracle must detect when keys are bound and revoked.

use super::assert_violation;
use crate::oracle::*;
use roce_stack::{Access, Buffer, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

const KEY: u32 = 0x501;
const OTHER: u32 = 0x502;

/// Side 0 uses keys of memory of side 1, which binds and invalidates.
struct Fixture {
    oracle: Oracle,
    target: Arc<Buffer>,
    /// The memory that side 0's READs write to.
    out: Arc<Buffer>,
    posted: [u64; 2],
}

fn buffer() -> Arc<Buffer> {
    Arc::new(Buffer::new(256).expect("a buffer"))
}

fn fixture() -> Fixture {
    let mut oracle = Oracle::new();
    let (target, out) = (buffer(), buffer());
    let areas = |target: &Arc<Buffer>, out: &Arc<Buffer>| FlowAreas {
        out: Area::new(Arc::clone(out)),
        target: Area::new(Arc::clone(target)),
        inbox: Area::new(buffer()),
    };
    let flows = [areas(&target, &out), areas(&buffer(), &buffer())];
    oracle.connected(0, Ends::default(), Causes::default(), flows);
    Fixture {
        oracle,
        target,
        out,
        posted: [0; 2],
    }
}

impl Fixture {
    fn post(&mut self, side: usize, effect: Effect, key: Option<u32>, opcode: WcOpcode) -> u64 {
        self.post_fenced(side, effect, key, opcode, true)
    }

    fn post_fenced(
        &mut self,
        side: usize,
        effect: Effect,
        key: Option<u32>,
        opcode: WcOpcode,
        fence: bool,
    ) -> u64 {
        let invalidates = key.filter(|_| opcode == WcOpcode::Send);
        let send = PostedSend {
            effect,
            lands_at: 0,
            signaled: true,
            fence,
            key,
            invalidates,
            fails: false,
            fails_locally: false,
            denied: false,
            statuses: &[],
            pool: None,
            opcode,
            len: 0,
        };
        self.oracle.posted_send(0, side, send);
        self.posted[side] += 1;
        self.posted[side] - 1
    }

    fn write(&mut self, key: u32) -> u64 {
        self.write_value(key, 1, true)
    }

    fn write_value(&mut self, key: u32, value: u8, fence: bool) -> u64 {
        let effect = Effect::Write {
            at: 32,
            bytes: vec![value; 16].into(),
            imm: None,
        };
        self.post_fenced(0, effect, Some(key), WcOpcode::RdmaWrite, fence)
    }

    /// A READ of the bytes that the WRITEs go to.
    fn read(&mut self, key: u32) -> u64 {
        let effect = Effect::Read {
            range: 32..48,
            to: 0,
        };
        self.post(0, effect, Some(key), WcOpcode::RdmaRead)
    }

    /// A READ succeeds, with bytes of this value.
    fn read_completes(&mut self, id: u64, value: u8) -> Verdict {
        self.out.write(0, &[value; 16]).expect("in bounds");
        self.completes(0, id, WcStatus::Success, WcOpcode::RdmaRead)
    }

    /// Side 0 sends a message, and its receive completes at side 1.
    fn message(&mut self, fence: bool) {
        let bytes = Vec::new().into();
        let effect = Effect::Send { bytes, imm: None };
        self.post_fenced(0, effect, None, WcOpcode::Send, fence);
        self.oracle.posted_recv(0, 1, PostedRecv { at: 0, len: 0 });
        self.completes(1, 0, WcStatus::Success, WcOpcode::Recv)
            .expect("legal");
    }

    /// Puts `len` bytes of this value at the target, as a WRITE does.
    fn holds(&self, value: u8, len: usize) {
        self.target.write(32, &vec![value; len]).expect("in bounds");
    }

    fn lands(&self, len: usize) {
        self.holds(1, len);
    }

    fn bind(&mut self, key: Option<u32>, replaces: Option<u32>) -> u64 {
        let effect = Effect::Bind { key, replaces };
        self.post(1, effect, None, WcOpcode::BindMw)
    }

    fn invalidate(&mut self, key: u32) -> u64 {
        self.post(1, Effect::Invalidate { key }, None, WcOpcode::LocalInv)
    }

    fn completes(&mut self, side: usize, id: u64, status: WcStatus, opcode: WcOpcode) -> Verdict {
        let done = Completion {
            wr_id: id,
            status,
            opcode,
            byte_len: 0,
            qpn: Qpn::from_bits(5),
            imm: None,
            invalidated_rkey: None,
            source: None,
        };
        self.oracle.completed(0, side, &done)
    }

    fn bound(&mut self, key: u32, replaces: Option<u32>) {
        let id = self.bind(Some(key), replaces);
        self.completes(1, id, WcStatus::Success, WcOpcode::BindMw)
            .expect("legal");
    }

    fn invalidated(&mut self, key: u32) {
        let id = self.invalidate(key);
        self.completes(1, id, WcStatus::Success, WcOpcode::LocalInv)
            .expect("legal");
    }

    fn wrote(&mut self, id: u64, status: WcStatus) -> Verdict {
        self.completes(0, id, status, WcOpcode::RdmaWrite)
    }

    fn check_idle(&mut self) -> Verdict {
        self.oracle.check_idle(|_, _| Some((0, 0)))
    }
}

#[test]
fn a_window_that_is_bound_used_and_invalidated_passes() {
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.write(KEY);
    f.lands(16);
    f.wrote(id, WcStatus::Success).expect("legal");
    f.invalidated(KEY);
    f.bound(OTHER, None);
    let id = f.write(OTHER);
    f.wrote(id, WcStatus::Success).expect("legal");
    f.check_idle().expect("legal");
}

#[test]
fn a_refusal_while_the_key_is_valid() {
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.write(KEY);
    assert_violation(f.wrote(id, WcStatus::RemoteAccessError), "has no cause");
}

#[test]
fn a_request_may_be_refused_while_its_key_is_bound_or_revoked() {
    for status in [WcStatus::Success, WcStatus::RemoteAccessError] {
        let mut f = fixture();
        f.bind(Some(KEY), None);
        let id = f.write(KEY);
        f.lands(16);
        f.wrote(id, status).expect("both results are legal");
        let mut f = fixture();
        f.bound(KEY, None);
        let id = f.write(KEY);
        f.lands(16);
        f.invalidate(KEY);
        f.wrote(id, status).expect("both results are legal");
    }
}

#[test]
fn a_key_that_grants_access_after_its_revocation() {
    let mut f = fixture();
    f.bound(KEY, None);
    f.invalidated(KEY);
    let id = f.write(KEY);
    f.lands(16);
    assert_violation(f.wrote(id, WcStatus::Success), "must be refused");
    // By a binding of the same window.
    let mut f = fixture();
    f.bound(KEY, None);
    f.bound(OTHER, Some(KEY));
    let id = f.write(KEY);
    f.lands(16);
    assert_violation(f.wrote(id, WcStatus::Success), "must be refused");
    // By this side's own SEND.
    let mut f = fixture();
    f.bound(KEY, None);
    let bytes = vec![2; 16].into();
    let send = Effect::Send { bytes, imm: None };
    let id = f.post(0, send, Some(KEY), WcOpcode::Send);
    f.completes(0, id, WcStatus::Success, WcOpcode::Send)
        .expect("legal");
    let id = f.write(KEY);
    assert_violation(f.wrote(id, WcStatus::Success), "must be refused");
}

#[test]
fn bytes_written_through_a_revoked_key() {
    // Half of its bytes were placed when the key was revoked.
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.write(KEY);
    f.lands(8);
    f.invalidated(KEY);
    f.lands(9);
    f.wrote(id, WcStatus::RemoteAccessError).expect("legal");
    assert_violation(f.check_idle(), "byte 40");
    // And then it can't have succeeded.
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.write(KEY);
    f.lands(8);
    f.invalidated(KEY);
    f.lands(16);
    assert_violation(f.wrote(id, WcStatus::Success), "must be refused");
}

#[test]
fn an_abandoned_request_may_arrive_after_its_key_is_revoked() {
    let given_up = |f: &mut Fixture, destroyed: bool| match destroyed {
        true => f.oracle.destroyed(0, 0).expect("legal"),
        false => f.wrote(0, WcStatus::RetryExceeded).expect("a cause"),
    };
    for destroyed in [true, false] {
        let mut f = fixture();
        f.oracle.pair(0).causes.lossy = true;
        f.bound(KEY, None);
        f.write(KEY);
        given_up(&mut f, destroyed);
        assert!(!f.oracle.may_be_broken(0, 1));
        // The peer's QP refuses it, or executed it before.
        f.invalidate(KEY);
        assert!(f.oracle.may_be_broken(0, 1));
    }
    // But the key no longer allows any access.
    for destroyed in [true, false] {
        let mut f = fixture();
        f.oracle.pair(0).causes.lossy = true;
        f.bound(KEY, None);
        f.write(KEY);
        given_up(&mut f, destroyed);
        f.invalidated(KEY);
        f.lands(1);
        assert_violation(f.check_idle(), "byte 32");
    }
}

#[test]
fn a_write_before_the_revocation_may_complete_after_it() {
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.write(KEY);
    f.lands(16);
    f.invalidated(KEY);
    f.wrote(id, WcStatus::Success).expect("legal");
    f.check_idle().expect("legal");
}

#[test]
fn a_binding_or_an_invalidation_that_fails_without_cause() {
    let status = WcStatus::MemoryWindowBindError;
    let mut f = fixture();
    let id = f.bind(Some(KEY), None);
    assert_violation(f.completes(1, id, status, WcOpcode::BindMw), "has no cause");
    let mut f = fixture();
    f.bound(KEY, None);
    let id = f.invalidate(KEY);
    assert_violation(
        f.completes(1, id, status, WcOpcode::LocalInv),
        "has no cause",
    );
    let mut f = fixture();
    f.bound(KEY, None);
    f.oracle.window_freed(0, 0, Some(KEY));
    let id = f.invalidate(KEY);
    f.completes(1, id, status, WcOpcode::LocalInv)
        .expect("the window was freed");
}

/// Seed 777442510. A WRITE is executed, a READ is answered with its bytes, a second WRITE
/// overwrites them, and then the window of the first is freed. All of this happens before the
/// first completion arrives. The READ is right: the responder executes requests in order
/// (IBTA 1.7, 9.5), and freeing the window later does not undo what was executed.
#[test]
fn a_read_returns_bytes_of_a_write_that_was_overwritten_before_its_key_was_revoked() {
    for by_owner in [true, false] {
        let mut f = fixture();
        f.bound(KEY, None);
        f.bound(OTHER, None);
        let first = f.write_value(KEY, 1, false);
        let read = f.read(KEY);
        let second = f.write_value(OTHER, 2, false);
        f.holds(1, 16);
        // The READ takes them, and the second WRITE begins.
        f.holds(2, 8);
        match by_owner {
            true => f.invalidated(KEY),
            false => f.oracle.window_freed(0, 0, Some(KEY)),
        }
        f.holds(2, 16);
        f.wrote(first, WcStatus::Success).expect("legal");
        f.read_completes(read, 1).expect("they were there");
        f.wrote(second, WcStatus::Success).expect("legal");
        f.check_idle().expect("legal");
    }
}

/// The same with a WRITE that was posted after the READ. The READ may see it, unless the
/// WRITE is fenced.
#[test]
fn a_read_may_return_bytes_of_a_later_write_without_a_fence() {
    for fence in [false, true] {
        let mut f = fixture();
        f.bound(KEY, None);
        f.bound(OTHER, None);
        let read = f.read(KEY);
        f.write_value(KEY, 1, fence);
        f.write_value(OTHER, 2, false);
        f.holds(1, 16);
        f.holds(2, 16);
        f.invalidated(KEY);
        let verdict = f.read_completes(read, 1);
        match fence {
            true => assert_violation(verdict, "never there"),
            false => verdict.expect("they were there"),
        }
    }
}

/// A key that is being revoked does not justify a value that no WRITE has put there.
#[test]
fn a_read_that_returns_bytes_never_there_while_a_key_is_revoked() {
    let mut f = fixture();
    f.bound(KEY, None);
    f.bound(OTHER, None);
    f.write_value(KEY, 1, false);
    let read = f.read(KEY);
    f.write_value(OTHER, 2, false);
    f.holds(1, 16);
    f.holds(2, 8);
    f.invalidated(KEY);
    f.wrote(0, WcStatus::Success).expect("legal");
    assert_violation(f.read_completes(read, 3), "never there");
}

/// Seed 777385560. While a READ is being answered, the SEND posted after it is executed and
/// completes its receive. Then the owner invalidates the region's rights. Without a fence, a
/// SEND does not wait for a READ posted before it (IBTA 1.7, 10.8.3.3). The responder is right
/// to refuse the rest of the READ, and its QP is right to fail.
#[test]
fn a_message_behind_a_read_does_not_prove_that_the_read_is_done() {
    for status in [WcStatus::Success, WcStatus::RemoteAccessError] {
        let mut f = fixture();
        let read = f.read(KEY);
        f.message(false);
        assert!(f.oracle.key_in_use(0, 0, KEY));
        f.invalidated(KEY);
        assert!(f.oracle.may_be_broken(0, 1));
        f.completes(0, read, status, WcOpcode::RdmaRead)
            .expect("both results are legal");
    }
}

/// A fenced message behind a READ shows that the READ is done, so the QP that invalidates has no
/// cause to fail.
#[test]
fn a_fenced_message_behind_a_read_proves_that_the_read_is_done() {
    let mut f = fixture();
    let read = f.read(KEY);
    f.message(true);
    f.invalidated(KEY);
    assert!(!f.oracle.may_be_broken(0, 1));
    let verdict = f.completes(0, read, WcStatus::RemoteAccessError, WcOpcode::RdmaRead);
    assert_violation(verdict, "has no cause");
}

/// The responder may still answer a READ after the requester has destroyed its QP.
#[test]
fn an_abandoned_read_may_find_its_key_revoked_after_a_message_behind_it() {
    let mut f = fixture();
    f.read(KEY);
    f.message(false);
    f.oracle.destroyed(0, 0).expect("legal");
    assert!(!f.oracle.may_be_broken(0, 1));
    f.invalidate(KEY);
    assert!(f.oracle.may_be_broken(0, 1));
}

/// The responder does not answer a SEND whose key it can't invalidate (IBTA 1.7, 9.9.6.3,
/// class J).
#[test]
fn a_refused_invalidation_is_not_answered() {
    for (status, legal) in [
        (WcStatus::RetryExceeded, true),
        (WcStatus::RemoteAccessError, false),
        (WcStatus::Success, false),
    ] {
        let mut f = fixture();
        f.bound(KEY, None);
        f.invalidated(KEY);
        let bytes = Vec::new().into();
        let send = Effect::Send { bytes, imm: None };
        let id = f.post(0, send, Some(KEY), WcOpcode::Send);
        let verdict = f.completes(0, id, status, WcOpcode::Send);
        assert_eq!(verdict.is_ok(), legal, "{status:?}: {verdict:?}");
    }
}

/// A region is registered again with the same key and these rights.
fn grants(access: Access) -> Reregistration {
    Reregistration {
        access,
        keeps_address: true,
        moved: None,
    }
}

/// A WRITE is in flight while its key loses its right and gets it back. Whether the bytes in its
/// place are those of a later WRITE does not show whether it was executed.
#[test]
fn a_write_may_be_executed_when_its_key_grants_access_again() {
    for lands_between in [false, true] {
        let mut f = fixture();
        let first = f.write(KEY);
        let later = f.write_value(KEY, 2, false);
        if lands_between {
            f.holds(2, 16);
        }
        for access in [Access::empty(), Access::REMOTE_WRITE] {
            f.oracle
                .reregistered(0, 0, KEY, grants(access))
                .expect("legal");
        }
        f.lands(16);
        f.completes(0, first, WcStatus::Success, WcOpcode::RdmaWrite)
            .expect("it was executed after all");
        f.holds(3, 16);
        assert_violation(
            f.completes(0, later, WcStatus::Success, WcOpcode::RdmaWrite),
            "byte 32",
        );
    }
}

/// A WRITE whose key lost its right before it arrived must not be executed, and changes nothing.
#[test]
fn a_write_without_a_right_changes_nothing() {
    let mut f = fixture();
    let id = f.write(KEY);
    f.oracle
        .reregistered(0, 0, KEY, grants(Access::empty()))
        .expect("legal");
    f.lands(16);
    assert_violation(
        f.completes(0, id, WcStatus::Success, WcOpcode::RdmaWrite),
        "must be refused",
    );
}

//! Fences (IBTA 1.7, 10.8.3.3): a request with the fence bit begins when all READs
//! and atomics before it have completed.

use crate::sim::{A, B, Fate, Pair, Setup, pattern};
use roce_stack::{SendFlags, SendOp};
use roce_wire::{Opcode, Operation};

fn fenced() -> SendFlags {
    SendFlags::SIGNALED | SendFlags::FENCE
}

/// A WRITE of the bytes that a READ fetches must not overtake it.
// shows: 9.5-fence, 10.8.3-fence
#[test]
fn a_fenced_write_waits_for_the_read_before_it() {
    for fence in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let len = 20_000;
        let local = pair.mem(A, len);
        let remote = pair.mem(B, 2 * len);
        remote.write(0, &pattern(9, len));
        pair.post(A, 1, SendOp::Read(remote.remote(0)), &[local.sge(0, len)]);
        let flags = if fence { fenced() } else { SendFlags::SIGNALED };
        let op = SendOp::Write(remote.remote(len));
        pair.post_with(A, 2, op, &[local.sge(0, len)], flags);
        pair.run();
        pair.assert_sent(A, &[1, 2]);
        // Without the fence, the WRITE sends the bytes from before the READ.
        let copied = remote.read(len, len) == pattern(9, len);
        assert_eq!(copied, fence);
    }
}

// shows: 9.5-fence
#[test]
fn a_fence_waits_for_atomics_but_not_for_writes() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 64);
    let remote = pair.mem(B, 64);
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
    let write = SendOp::Write(remote.remote(8));
    pair.post_with(A, 2, write, &[local.sge(8, 8)], fenced());
    pair.pump();
    assert_eq!(pair.links[A].log.len(), 2, "a WRITE holds up no fence");
    let add = SendOp::FetchAdd {
        remote: remote.remote(16),
        add: 1,
    };
    pair.post(A, 3, add, &[local.sge(16, 8)]);
    pair.post_with(A, 4, write, &[local.sge(8, 8)], fenced());
    pair.pump();
    assert_eq!(pair.links[A].log.len(), 3, "the atomic only");
    pair.run();
    pair.assert_sent(A, &[1, 2, 3, 4]);
}

/// A fenced request that is lost is retransmitted although READs behind it are open.
// shows: 9.5-fence-again
#[test]
fn a_fenced_request_is_sent_again_with_reads_open_behind_it() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 64);
    let remote = pair.mem(B, 64);
    pair.links[A].hit(&[0], Fate::Drop, |sent| {
        sent.opcode() == Opcode::RC_WRITE_ONLY
    });
    let write = SendOp::Write(remote.remote(0));
    pair.post_with(A, 1, write, &[local.sge(0, 8)], fenced());
    pair.post(A, 2, SendOp::Read(remote.remote(8)), &[local.sge(8, 8)]);
    pair.run();
    pair.assert_sent(A, &[1, 2]);
}

/// A fenced READ does not wait for itself when it is retransmitted.
// shows: 9.5-fence-again
#[test]
fn a_fenced_read_is_sent_again() {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 64);
    let remote = pair.mem(B, 64);
    remote.write(0, b"abcdefgh");
    pair.links[B].hit(&[0], Fate::Drop, |sent| {
        sent.opcode().operation() == Operation::ReadResponse
    });
    let read = SendOp::Read(remote.remote(0));
    pair.post_with(A, 1, read, &[local.sge(0, 8)], fenced());
    pair.run();
    pair.assert_sent(A, &[1]);
    assert_eq!(local.read(0, 8), b"abcdefgh");
}

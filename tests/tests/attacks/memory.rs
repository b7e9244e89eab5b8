//! A peer that asks for memory which it may not have.

use std::sync::Arc;

use super::scene::{DATAPATHS, Scene};
use super::victim::{Half, LEN, Victim, connect, connected};
use roce_verbs::memory::{Memory, MemoryWindow, MwType, MwView, Registration};
use roce_verbs::observation::Stat;
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;

/// Bytes of a request.
const SIZE: usize = 8;
/// What the attacker must not see.
const SECRET: u8 = 0xd7;
/// What it has in its own memory before, and tries to write.
const OWN: u8 = 0x11;

/// An operation on the peer's memory.
type Operation = fn(RemoteAddr) -> SendOp;

/// READ, WRITE and an atomic.
const OPERATIONS: [Operation; 3] = [SendOp::Read, SendOp::Write, |remote| SendOp::FetchAdd {
    remote,
    add: 1,
}];

/// The rights for these operations.
const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::REMOTE_INVALIDATE);
/// The same without those that windows can't grant.
const WINDOW: Access = ALL
    .difference(Access::LOCAL_WRITE)
    .difference(Access::REMOTE_INVALIDATE);

/// A connection whose peer, at `near`, attacks the memory of `far`.
struct Attempt<'a> {
    near: Half<'a>,
    far: Half<'a>,
}

impl<'a> Attempt<'a> {
    fn new(near: &Victim<'a>, far: &Victim<'a>) -> Self {
        let [near, far] = connected(near, far, QpKind::Rc, false);
        let fill = |half: &Half<'_>, byte| half.region.write(0, &[byte; 2 * LEN]);
        fill(&near, OWN).expect("in range");
        fill(&far, SECRET).expect("in range");
        Self { near, far }
    }

    /// A region of these bytes of the victim's memory.
    fn register(&self, pd: &ProtectionDomain, offset: usize, len: usize) -> Registration {
        let buffer = Arc::clone(self.far.region.buffer());
        let part = Memory::part(buffer, offset, len).expect("in range");
        pd.register_memory(part, None, ALL).expect("registered")
    }

    /// Binds a window of type 1 to the first bytes, and returns its key.
    fn bind(&self, window: &MemoryWindow, view: &MwView) -> u32 {
        let far = &self.far;
        let bound = far
            .end
            .enter(|| far.qp.bind_window(1, window, Some(view)))
            .expect("posted");
        assert_eq!(far.status(), WcStatus::Success, "bound");
        window.rkey(bound)
    }

    /// The address of a byte of the victim's memory, with another key.
    fn remote(&self, offset: u64, rkey: u32) -> RemoteAddr {
        let addr = self.far.region.remote(offset).addr;
        RemoteAddr { addr, rkey }
    }

    /// A request that is allowed. The attack repeats it after its key has lost the right.
    #[track_caller]
    fn may_read(&self, from: RemoteAddr) {
        let status = self.near.perform(SendOp::Read(from), LEN, SIZE);
        assert_eq!(status, WcStatus::Success, "before the attack");
        assert_eq!(self.near.bytes(LEN, SIZE), [SECRET; SIZE]);
    }

    /// The attack: the responder refuses the request, no byte moves, and the connection ends.
    #[track_caller]
    fn is_refused(&self, op: Operation, at: RemoteAddr) {
        let refused = self.far.stat(Stat::FatalNaksSent);
        let status = self.near.perform(op(at), 0, SIZE);
        assert_eq!(status, WcStatus::RemoteAccessError);
        assert_eq!(self.near.bytes(0, SIZE), [OWN; SIZE], "a secret came");
        assert!(self.far.bytes(0, 2 * LEN) == [SECRET; 2 * LEN], "written");
        assert_eq!(self.far.stat(Stat::FatalNaksSent), refused + 1);
        for half in [&self.near, &self.far] {
            assert_eq!(half.state(), QpState::Err);
        }
    }
}

/// Runs `attack` with each operation over each datapath.
fn everywhere(attack: fn(&Victim<'_>, &Victim<'_>, Operation)) {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let (near, far) = (scene.near(), scene.far());
        OPERATIONS.iter().for_each(|op| attack(&near, &far, *op));
    }
}

/// Attacker: the peer, with a valid key. It asks for eight bytes, of which the first or the last is
/// outside of the region.
///
/// The request is refused, and no byte of either end changes.
#[test]
fn one_byte_outside_of_a_region_is_out_of_reach() {
    everywhere(|near, far, op| {
        // Bytes 8 to 15 and 16 to 23 are aligned for atomics.
        for (first, inside, outside) in [(9, 16, 8), (8, 8, 16)] {
            let attempt = Attempt::new(near, far);
            let region = attempt.register(&attempt.far.pd, first, 15);
            attempt.may_read(attempt.remote(inside, region.rkey()));
            attempt.is_refused(op, attempt.remote(outside, region.rkey()));
        }
    });
}

/// Attacker: the peer of one connection, which has got hold of a key of memory that the same
/// process has registered in another protection domain, for another peer (ReDMArk).
///
/// The request is refused, and no byte of either end changes. The other peer may use the key.
#[test]
fn a_key_of_another_protection_domain_opens_nothing() {
    everywhere(|near, far, op| {
        let attempt = Attempt::new(near, far);
        let other = far.context.alloc_pd();
        let region = attempt.register(&other, 0, LEN);
        let halves = (
            near.half(QpKind::Rc, false),
            far.half_in(&other, QpKind::Rc, false),
        );
        connect(&halves.0, &halves.1);
        let at = attempt.remote(8, region.rkey());
        let allowed = halves.0.perform(SendOp::Read(at), LEN, SIZE);
        assert_eq!(allowed, WcStatus::Success, "of the other peer");
        assert_eq!(halves.0.bytes(LEN, SIZE), [SECRET; SIZE]);
        attempt.is_refused(op, at);
    });
}

/// Attacker: a peer that keeps a key after the program has deregistered the memory.
///
/// The request is refused, and no byte of either end changes.
#[test]
fn a_key_of_a_deregistered_region_opens_nothing() {
    everywhere(|near, far, op| {
        let attempt = Attempt::new(near, far);
        let region = attempt.register(&attempt.far.pd, 0, LEN);
        let at = attempt.remote(8, region.rkey());
        attempt.may_read(at);
        region.deregister().expect("no window is bound");
        attempt.is_refused(op, at);
    });
}

/// Attacker: a peer that keeps a key after it was invalidated by a SEND.
///
/// The request is refused, and no byte of either end changes.
#[test]
fn an_invalidated_key_opens_nothing() {
    everywhere(|near, far, op| {
        let attempt = Attempt::new(near, far);
        let region = attempt.register(&attempt.far.pd, 0, LEN);
        let at = attempt.remote(8, region.rkey());
        attempt.may_read(at);
        let receive = RecvRequest {
            wr_id: 1,
            sges: &[],
        };
        attempt.far.qp.post_recv(&receive).expect("posted");
        let invalidate = SendOp::SendInvalidate(region.rkey());
        assert_eq!(attempt.near.perform(invalidate, 0, 0), WcStatus::Success);
        assert_eq!(attempt.far.status(), WcStatus::Success, "received");
        attempt.is_refused(op, at);
    });
}

/// Attacker: a peer that keeps the key of a memory window after the program has destroyed the
/// window, but not the region.
///
/// The request is refused, and no byte of either end changes.
#[test]
fn a_key_of_a_destroyed_window_opens_nothing() {
    everywhere(|near, far, op| {
        let attempt = Attempt::new(near, far);
        let window = attempt.far.pd.alloc_mw(MwType::Type1).expect("a window");
        let view = attempt.far.region.window(0, LEN, WINDOW).expect("in range");
        let at = attempt.remote(8, attempt.bind(&window, &view));
        attempt.may_read(at);
        drop(window);
        attempt.is_refused(op, at);
    });
}

/// Attacker: the peer of one connection, which has got hold of the key of a window of type 2 that
/// is bound to another connection of the same protection domain.
///
/// The request is refused, and no byte of either end changes. The other peer may use the key.
#[test]
fn a_window_of_another_connection_opens_nothing() {
    const KEY: u8 = 5;
    everywhere(|near, far, op| {
        let attempt = Attempt::new(near, far);
        let pd = &attempt.far.pd;
        let (other, other_far) = (
            near.half(QpKind::Rc, false),
            far.half_in(pd, QpKind::Rc, false),
        );
        connect(&other, &other_far);
        let window = pd.alloc_mw(MwType::Type2).expect("a window");
        let view = attempt.far.region.window(0, LEN, WINDOW).expect("in range");
        let bound = other_far.perform(window.bind(KEY, &view), 0, 0);
        assert_eq!(bound, WcStatus::Success);
        let at = attempt.remote(8, window.rkey(KEY));
        let allowed = other.perform(SendOp::Read(at), LEN, SIZE);
        assert_eq!(allowed, WcStatus::Success, "of the other peer");
        assert_eq!(other.bytes(LEN, SIZE), [SECRET; SIZE]);
        attempt.is_refused(op, at);
    });
}

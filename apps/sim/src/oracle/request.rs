//! The requests of applications, as reported to the oracle.

use super::area::Bytes;
use super::words::WordOp;
use core::ops::Range;
use roce_stack::{WcOpcode, WcStatus};

/// The effect of a send request on memory.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Its bytes go to the peer's next receive.
    Send {
        /// The bytes.
        bytes: Bytes,
        /// The immediate data.
        imm: Option<u32>,
    },
    /// Its bytes go to the target at `at`.
    Write {
        /// The offset in the target.
        at: usize,
        /// The bytes.
        bytes: Bytes,
        /// The immediate data, for which a receive is consumed.
        imm: Option<u32>,
    },
    /// The target's bytes `range` go to `out` at `to`.
    Read {
        /// The offsets in the target.
        range: Range<usize>,
        /// The offset in `out`.
        to: usize,
    },
    /// No effect on memory: the request only accesses the target's bytes.
    Flush,
    /// A window of this side's memory is bound: the peer may then use `key`, and no longer the
    /// window's previous key.
    Bind {
        /// The new key, unless the window is only unbound.
        key: Option<u32>,
        /// The key before.
        replaces: Option<u32>,
    },
    /// A key of this side's memory is invalidated.
    Invalidate {
        /// The key.
        key: u32,
    },
    /// An atomic on a word of a host. The previous value goes to `out`.
    Word {
        /// The host of the word.
        host: usize,
        /// The index of the word on that host.
        word: usize,
        /// The operation.
        op: WordOp,
    },
}

/// An accepted send request. Its `wr_id` is its number in the flow.
#[derive(Clone, Debug)]
pub struct PostedSend {
    /// Its effect.
    pub effect: Effect,
    /// The offset in `out` for an atomic's result.
    pub lands_at: usize,
    /// It is signaled.
    pub signaled: bool,
    /// It waits for READs and atomics before it.
    pub fence: bool,
    /// The key of the target that it uses.
    pub key: Option<u32>,
    /// The key of the target that the peer's QP invalidates as it takes the message.
    pub invalidates: Option<u32>,
    /// Whether it is faulty in a way that must make it fail.
    pub fails: bool,
    /// Whether the fault is on this side, so that the peer does not refuse it.
    pub fails_locally: bool,
    /// Whether it fails only because its key lacks a right now. A re-registration may add the right.
    pub denied: bool,
    /// The statuses that its fault justifies.
    pub statuses: &'static [WcStatus],
    /// The pool from which it takes a receive, if the request names one, as with XRC.
    pub pool: Option<usize>,
    /// The opcode of its completion.
    pub opcode: WcOpcode,
    /// Its length in bytes.
    pub len: u32,
}

impl PostedSend {
    /// Whether the peer can distinguish it from all other messages. Short messages may be
    /// identical, and then it is unknown which of them was lost.
    pub(super) fn is_distinguishable(&self) -> bool {
        match &self.effect {
            Effect::Send { bytes, imm } => imm.is_some() || bytes.len() >= 16,
            Effect::Write { imm, .. } => imm.is_some(),
            _ => false,
        }
    }

    /// Whether the peer consumes a receive for it.
    pub(super) fn consumes_receive(&self) -> bool {
        matches!(
            self.effect,
            Effect::Send { .. } | Effect::Write { imm: Some(_), .. }
        )
    }

    /// Whether the peer must refuse it. A READ with a fault on this side still reaches the peer.
    pub(super) fn is_refused(&self) -> bool {
        self.fails && !self.fails_locally
    }

    /// Whether the peer must not execute it. A local fault is found before the request is sent,
    /// except for a READ or atomic, where it is found when the result arrives.
    pub(super) fn must_not_execute(&self) -> bool {
        let fetches = matches!(self.effect, Effect::Read { .. } | Effect::Word { .. });
        self.fails && !(self.fails_locally && fetches)
    }
}

/// An accepted receive request. Its `wr_id` is its number in the flow.
#[derive(Clone, Copy, Debug)]
pub struct PostedRecv {
    /// The offset in the inbox.
    pub at: usize,
    /// The length in bytes.
    pub len: usize,
}

//! What applications post, as the oracle is told.

use super::area::Bytes;
use super::words::WordOp;
use core::ops::Range;
use roce_stack::{WcOpcode, WcStatus};

/// What a send request does to memory.
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
        /// Where.
        at: usize,
        /// The bytes.
        bytes: Bytes,
        /// The immediate data, for which a receive is consumed.
        imm: Option<u32>,
    },
    /// The target's bytes `range` go to `out` at `to`.
    Read {
        /// Which bytes.
        range: Range<usize>,
        /// Where to.
        to: usize,
    },
    /// Nothing: the target's bytes are only looked at.
    Flush,
    /// A window of this side's memory is bound: the peer may use `key` then, and what
    /// the window's key was before no more.
    Bind {
        /// The new key, unless the window is only unbound.
        key: Option<u32>,
        /// The key before.
        replaces: Option<u32>,
    },
    /// A key of this side's memory is taken away.
    Invalidate {
        /// The key.
        key: u32,
    },
    /// An atomic on a word of a host; the value from before goes to `out`.
    Word {
        /// Whose word.
        host: usize,
        /// Which.
        word: usize,
        /// What is done.
        op: WordOp,
    },
}

/// A send request that was accepted; its `wr_id` is its number in the flow.
#[derive(Clone, Debug)]
pub struct PostedSend {
    /// What it does.
    pub effect: Effect,
    /// Where in `out` an atomic's result goes.
    pub lands_at: usize,
    /// It asks for a completion.
    pub signaled: bool,
    /// It waits for READs and atomics before it.
    pub fence: bool,
    /// The key of the target that it uses.
    pub key: Option<u32>,
    /// The key of the target, which the peer's QP gives up as it takes the message.
    pub invalidates: Option<u32>,
    /// It is wrong in a way that it must not survive.
    pub fails: bool,
    /// What is wrong lies on this side; the peer has nothing to refuse.
    pub fails_locally: bool,
    /// Statuses that what is wrong with it justifies.
    pub statuses: &'static [WcStatus],
    /// The pool that it takes a receive from, if it says so itself.
    pub pool: Option<usize>,
    /// What the completion says.
    pub opcode: WcOpcode,
    /// How long it is.
    pub len: u32,
}

impl PostedSend {
    /// Whether the peer can tell it from all other messages: shorter ones may be alike,
    /// and then which of them was lost is anybody's guess.
    pub(super) fn is_unmistakable(&self) -> bool {
        match &self.effect {
            Effect::Send { bytes, imm } => imm.is_some() || bytes.len() >= 16,
            Effect::Write { imm, .. } => imm.is_some(),
            _ => false,
        }
    }

    /// Whether the peer consumes a receive for it.
    pub(super) fn consumes(&self) -> bool {
        matches!(
            self.effect,
            Effect::Send { .. } | Effect::Write { imm: Some(_), .. }
        )
    }

    /// Whether the peer can't have executed it: what fails here does so before it is
    /// sent, unless it fails when its result lands.
    pub(super) fn must_not_execute(&self) -> bool {
        let fetches = matches!(self.effect, Effect::Read { .. } | Effect::Word { .. });
        self.fails && !(self.fails_locally && fetches)
    }
}

/// A receive request that was accepted; its `wr_id` is its number in the flow.
#[derive(Clone, Copy, Debug)]
pub struct PostedRecv {
    /// Where in the inbox.
    pub at: usize,
    /// How long.
    pub len: usize,
}

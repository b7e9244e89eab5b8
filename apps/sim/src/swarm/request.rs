//! A work request, for the NIC and for the oracle.

use crate::oracle::Effect;
use roce_stack::{SendOp, WcOpcode};

/// A request, for the NIC and for the oracle.
pub(super) struct Request {
    pub(super) op: SendOp,
    pub(super) lkey: u32,
    pub(super) effect: Effect,
    pub(super) opcode: WcOpcode,
    /// The key of the target that it uses.
    pub(super) key: Option<u32>,
    /// The key that it invalidates.
    pub(super) invalidates: Option<u32>,
}

impl Request {
    /// A request that needs no packets.
    pub(super) fn local(op: SendOp, effect: Effect, opcode: WcOpcode) -> Self {
        Self {
            op,
            lkey: 0,
            effect,
            opcode,
            key: None,
            invalidates: None,
        }
    }
}

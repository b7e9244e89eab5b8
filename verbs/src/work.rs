//! Work requests, which applications post to the queues of a [`QueuePair`](crate::QueuePair) or a
//! [`SharedReceiveQueue`](crate::qp::SharedReceiveQueue).

pub use crate::qp::post::SendBatch;
pub use roce_stack::{
    Flush, MAX_INLINE_BYTES, MAX_MESSAGE_BYTES, MAX_SGE, OpGroup, Payload, PostError, RecvRequest,
    SendFlags, SendOp, SendRequest, Target,
};
pub use roce_wire::{FlushPlacement, FlushSelectivity};

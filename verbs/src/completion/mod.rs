//! Completion queues, and channels for their events.

mod channel;
mod cq;

pub use channel::CompletionChannel;
pub use cq::CompletionQueue;
pub use roce_stack::{
    Completion, CompletionError, CqId, CqOverrun, CqResizeError, Notify, WcOpcode, WcStatus,
};

//! Completion queues, and channels for their events.

mod channel;
mod counter;
mod cq;

pub use channel::CompletionChannel;
pub use counter::CompletionCounter;
pub use cq::CompletionQueue;
pub use roce_stack::{
    AttachCounterError, Completion, CompletionError, CountedOps, CounterUnit, CqId, CqOverrun,
    CqResizeError, Notify, WcOpcode, WcStatus,
};

//! Completion queues, and channels that announce completions.

mod channel;
mod cq;

pub use channel::CompletionChannel;
pub use cq::CompletionQueue;

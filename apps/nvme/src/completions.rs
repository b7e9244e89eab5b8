//! Waiting for completions: first by polling, which answers soonest, then without the processor.

use roce_verbs::completion::{CompletionChannel, CqOverrun, Notify};
use roce_verbs::device::OpenError;
use roce_verbs::{Completion, CompletionQueue, Context};
use std::time::{Duration, Instant};

/// How long a thread polls before it sleeps. A round trip to a target on the same network is
/// shorter.
const POLLING: Duration = Duration::from_micros(50);

/// A completion queue with a channel.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) queue: CompletionQueue,
    channel: CompletionChannel,
}

impl Completions {
    pub(crate) fn new(context: &Context, capacity: usize) -> Result<Self, OpenError> {
        let channel = context.create_channel()?;
        let queue = context.create_cq_with_channel(capacity, &channel);
        Ok(Self { queue, channel })
    }

    /// The next completion; waits at most `timeout` for it.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Completion>, CqOverrun> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(completion) = self.queue.poll_for(POLLING.min(timeout))? {
                return Ok(Some(completion));
            }
            self.queue.request_notify(Notify::Next);
            if let Some(completion) = self.queue.poll()? {
                return Ok(Some(completion));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // If this fails, the loop polls instead of sleeping.
            let _ = self.channel.wait(left);
        }
    }
}

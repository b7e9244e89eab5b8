//! Completion channels: waiting for completions without polling.

use crate::context::Context;
use crate::error::OpenError;
use crate::runtime::Announcements;
use roce_stack::CqId;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// A channel on which completion queues announce completions, after
/// [`CompletionQueue::request_notify`](crate::CompletionQueue::request_notify). Its descriptor is
/// readable while an announcement waits.
#[derive(Clone)]
pub struct CompletionChannel {
    context: Context,
    /// A CQ is armed for one announcement at a time, so the queue holds no more
    /// entries than there are CQs.
    pub(crate) queue: Arc<Announcements<CqId>>,
}

impl Context {
    /// A channel on which completion queues announce completions.
    ///
    /// # Errors
    /// If the operating system has no descriptor left.
    pub fn create_channel(&self) -> Result<CompletionChannel, OpenError> {
        let queue = Announcements::new(usize::MAX).map_err(|source| OpenError::System {
            what: "making an eventfd",
            source,
        })?;
        Ok(CompletionChannel {
            context: self.clone(),
            queue: Arc::new(queue),
        })
    }
}

impl CompletionChannel {
    /// Takes the next announcement, if one waits.
    pub fn poll(&self) -> Option<CqId> {
        self.queue.poll()
    }

    /// Waits at most `timeout` for an announcement, without using the CPU. The background thread
    /// drives the NIC meanwhile.
    ///
    /// # Errors
    /// If the system call that waits fails.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<CqId>> {
        self.queue.wait(timeout, || self.context.hand_over())
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionChannel").finish_non_exhaustive()
    }
}

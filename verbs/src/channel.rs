//! Completion channels: waiting for completions without polling.

use crate::context::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_stack::CqId;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A channel on which completion queues announce completions, as
/// [`CompletionQueue::request_notify`](crate::CompletionQueue::request_notify) asks
/// for. Its descriptor is readable while an announcement waits.
#[derive(Clone)]
pub struct CompletionChannel {
    context: Context,
    pub(crate) inner: Arc<ChannelInner>,
}

pub(crate) struct ChannelInner {
    ready: EventFd,
    queue: Mutex<VecDeque<CqId>>,
}

impl ChannelInner {
    /// Announces a completion of the CQ. A CQ is armed for one event at a time, so
    /// the queue holds no more entries than there are CQs.
    pub(crate) fn raise(&self, id: CqId) {
        self.queue.lock().push_back(id);
        let _ = self.ready.write(1);
    }
}

impl CompletionChannel {
    pub(crate) fn new(context: Context) -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_SEMAPHORE;
        let ready = EventFd::from_value_and_flags(0, flags)?;
        let inner = Arc::new(ChannelInner {
            ready,
            queue: Mutex::new(VecDeque::new()),
        });
        Ok(Self { context, inner })
    }

    /// Takes an announcement that is there already.
    pub fn poll(&self) -> Option<CqId> {
        let id = self.inner.queue.lock().pop_front();
        if id.is_some() {
            let _ = self.inner.ready.read();
        }
        id
    }

    /// Waits for an announcement, at most for `timeout`, without using the CPU. The
    /// background thread drives the NIC meanwhile.
    ///
    /// # Errors
    /// If the operating system can't wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<CqId>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(id) = self.poll() {
                return Ok(Some(id));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.context.inner.shared.hand_over();
            let mut fds = [PollFd::new(self.inner.ready.as_fd(), PollFlags::POLLIN)];
            let millis = left.as_millis().saturating_add(1);
            let wait = PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX))
                .unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, wait) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.ready.as_fd()
    }
}

impl std::fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompletionChannel").finish_non_exhaustive()
    }
}

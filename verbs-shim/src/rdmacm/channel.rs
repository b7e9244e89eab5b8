//! Event channels: queues with a descriptor.

use crate::prelude::*;
use crate::wait::{blocks, make_blocking};
use roce_verbs::rdma_cm;
use std::os::fd::{AsFd, AsRawFd};

#[repr(C)]
pub(super) struct Channel {
    c: CPart<RdmaEventChannel>,
    pub(super) queue: Arc<rdma_cm::Channel>,
}

impl Channel {
    /// # Errors
    /// If the system is out of descriptors.
    pub(super) fn new() -> Result<Arc<Self>, Errno> {
        let queue = rdma_cm::Channel::new(usize::MAX).or_errno()?;
        make_blocking(&queue)?;
        Ok(Arc::new(Self {
            c: CPart::new(RdmaEventChannel {
                fd: queue.as_fd().as_raw_fd(),
            }),
            queue: Arc::new(queue),
        }))
    }

    /// The part that C sees.
    pub(super) fn as_ptr(&self) -> *mut RdmaEventChannel {
        self.c.as_ptr()
    }

    /// Whether a call at the channel waits for an event.
    pub(super) fn is_blocking(&self) -> Result<bool, Errno> {
        blocks(&self.queue)
    }
}

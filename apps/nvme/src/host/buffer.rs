//! Memory that the controller reads and writes.

use crate::Error;
use crate::wire::{KeyedSgl, Sgl};
use roce_verbs::memory::BufferRangeError;
use roce_verbs::{Access, MemoryRegion, ProtectionDomain};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Memory for the data of a queue's reads and writes.
///
/// Clones share the memory. Each operation that is outstanding has a clone, so the memory stays
/// until the operation is over. The controller may read and write all of it, at any time until then.
#[derive(Clone, Debug)]
pub struct IoBuffer {
    region: Arc<MemoryRegion>,
    /// The queue whose device has the memory.
    queue: u16,
}

impl IoBuffer {
    pub(super) fn new(pd: &ProtectionDomain, queue: u16, len: usize) -> Result<Self, Error> {
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = Arc::new(pd.allocate(len, access)?);
        Ok(Self { region, queue })
    }

    /// The descriptor of `range`.
    pub(super) fn keyed(&self, range: Range<usize>) -> Sgl {
        Sgl::Keyed(KeyedSgl {
            remote: self.region.remote(range.start as u64),
            len: range.len() as u32,
            invalidate: false,
        })
    }

    /// Checks that the buffer is one of queue `queue`, and that `range` lies in it.
    pub(super) fn check(&self, queue: u16, range: &Range<usize>) -> Result<(), Error> {
        if self.queue != queue {
            let of = self.queue;
            return Err(Error::Request(format!(
                "a buffer of queue {of} is used with queue {queue}: each queue has buffers of its own"
            )));
        }
        match range.start <= range.end && range.end <= self.region.len() {
            true => Ok(()),
            false => Err(Error::Buffer(BufferRangeError {
                offset: range.start,
                len: range.end.saturating_sub(range.start),
                buffer_len: self.region.len(),
            })),
        }
    }
}

impl Deref for IoBuffer {
    type Target = MemoryRegion;
    fn deref(&self) -> &MemoryRegion {
        &self.region
    }
}

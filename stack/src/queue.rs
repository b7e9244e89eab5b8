//! A bounded work queue, with storage for its scatter/gather elements and inline data.

use crate::memory::prefetch;
use crate::wr::{MAX_SGE, PostError, RecvRequest, Sge, total_len};
use core::hint::cold_path;
use std::collections::VecDeque;
use std::sync::Arc;

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The maximum number of requests.
    pub depth: usize,
    /// The maximum number of scatter/gather elements of each request.
    pub max_sge: usize,
}

/// The maximum inline data of a request, in bytes.
pub const MAX_INLINE_BYTES: usize = 512;

/// The maximum number of requests that a queue can be created for.
pub const MAX_QUEUE_DEPTH: usize = 1 << 16;

/// Work requests in order, the oldest first. All memory is allocated at the start.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    entries: VecDeque<Entry<T>>,
    sges: Box<[Sge]>,
    /// Storage for inline data, `max_inline` bytes for each request.
    inline: Box<[u8]>,
    max_inline: usize,
    limits: QueueLimits,
    next_slot: usize,
    /// Each completion that waits to be polled holds a clone of this guard.
    entry_guard: EntryGuard,
}

/// Keeps a request's entry in its queue occupied until the request's completion is polled and drops
/// the guard. Otherwise, a program that posts whenever the queue is not full could post more
/// requests than its CQ holds completions (IBTA 1.7, 11.4.2.1, freed resource count).
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryGuard(Arc<()>);

/// The source of a request's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PayloadSource<'a> {
    /// Registered memory.
    Memory(&'a [Sge]),
    /// Inline data, which was copied when the request was posted.
    Inline(&'a [u8]),
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    slot: usize,
    sges: usize,
    /// The length of the inline data.
    inline: usize,
}

impl<T> WorkQueue<T> {
    /// A queue with these limits. Limits above [`MAX_QUEUE_DEPTH`] and [`MAX_SGE`] are lowered.
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self::with_inline(limits, 0)
    }

    /// A queue with room for `max_inline` bytes of inline data in each request.
    pub(crate) fn with_inline(limits: QueueLimits, max_inline: usize) -> Self {
        let max_inline = max_inline.min(MAX_INLINE_BYTES);
        let limits = QueueLimits {
            depth: limits.depth.min(MAX_QUEUE_DEPTH),
            max_sge: limits.max_sge.min(MAX_SGE),
        };
        Self {
            entries: VecDeque::with_capacity(limits.depth),
            sges: vec![Sge::default(); limits.depth * limits.max_sge].into_boxed_slice(),
            inline: vec![0; limits.depth * max_inline].into_boxed_slice(),
            max_inline,
            limits,
            next_slot: 0,
            entry_guard: EntryGuard::default(),
        }
    }

    /// The limits that it was created with.
    pub(crate) fn limits(&self) -> QueueLimits {
        self.limits
    }

    /// Changes the depth, but not below the number of requests in the queue.
    pub(crate) fn resize(&mut self, depth: usize)
    where
        T: Copy,
    {
        let depth = depth.max(self.len());
        let mut other = Self::new(QueueLimits {
            depth,
            ..self.limits
        });
        for (index, entry) in self.entries.iter().enumerate() {
            debug_assert_eq!(entry.inline, 0, "receives have no inline data");
            let pushed = other.push(entry.item, self.sges(index));
            debug_assert!(pushed.is_ok(), "as deep as there are requests");
        }
        other.entry_guard = std::mem::take(&mut self.entry_guard);
        *self = other;
    }

    /// Checks that a request with `sges` elements can be added.
    pub(crate) fn check_room(&self, sges: usize) -> Result<(), PostError> {
        // rule: 10.7.3-elements
        if sges > self.limits.max_sge {
            cold_path();
            return Err(PostError::TooManySges {
                given: sges,
                max: self.limits.max_sge,
            });
        }
        // rule: 11.2.5.1-depths
        // rule: 11.4.2.1-freed-when-taken
        if self.entries.len() + self.completed() >= self.limits.depth {
            cold_path();
            return Err(PostError::QueueFull {
                depth: self.limits.depth,
            });
        }
        Ok(())
    }

    /// Checks that a request may have `bytes` bytes of inline data. Returns their number.
    // rule: 10.7.3-inline
    pub(crate) fn inline_len(&self, bytes: u64) -> Result<usize, PostError> {
        match usize::try_from(bytes) {
            Ok(len) if len <= self.max_inline => Ok(len),
            _ => Err(PostError::InlineTooLong {
                bytes,
                max: self.max_inline,
            }),
        }
    }

    /// Checks that a request with this source can be added.
    pub(crate) fn check_source(&self, source: PayloadSource<'_>) -> Result<(), PostError> {
        match source {
            PayloadSource::Memory(sges) => self.check_room(sges.len()),
            PayloadSource::Inline(data) => {
                self.inline_len(data.len() as u64)?;
                self.check_room(0)
            }
        }
    }

    /// Adds a request with the elements `sges`.
    ///
    /// # Errors
    /// As [`WorkQueue::check_room`].
    pub(crate) fn push(&mut self, item: T, sges: &[Sge]) -> Result<(), PostError> {
        self.push_from(item, PayloadSource::Memory(sges))
    }

    /// Adds a request with this source.
    ///
    /// # Errors
    /// As [`WorkQueue::check_source`].
    pub(crate) fn push_from(
        &mut self,
        item: T,
        source: PayloadSource<'_>,
    ) -> Result<(), PostError> {
        self.check_source(source)?;
        self.push_checked(item, source);
        Ok(())
    }

    /// Adds a request for which [`WorkQueue::check_source`] has just returned `Ok`. Checks nothing.
    pub(crate) fn push_checked(&mut self, item: T, source: PayloadSource<'_>) {
        let slot = self.next_slot;
        let next = slot + 1;
        self.next_slot = if next == self.limits.depth { 0 } else { next };
        let (mut sges, mut inline) = (0, 0);
        match source {
            PayloadSource::Memory(elements) => {
                sges = elements.len();
                let stored = &mut self.sges[slot * self.limits.max_sge..][..sges];
                // Copied one by one: most requests have one element.
                for (place, element) in stored.iter_mut().zip(elements) {
                    *place = *element;
                }
            }
            PayloadSource::Inline(data) => {
                inline = data.len();
                self.inline[slot * self.max_inline..][..inline].copy_from_slice(data);
            }
        }
        self.entries.push_back(Entry {
            item,
            slot,
            sges,
            inline,
        });
    }

    /// The source of the bytes of the request at `index`.
    #[inline(always)]
    pub(crate) fn source(&self, index: usize) -> PayloadSource<'_> {
        match self.entries.get(index) {
            Some(entry) if entry.inline > 0 => {
                let data = &self.inline[entry.slot * self.max_inline..];
                PayloadSource::Inline(&data[..entry.inline])
            }
            _ => PayloadSource::Memory(self.sges(index)),
        }
    }

    // rule: 10.8.5-unsignaled-frees
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.entries.pop_front().map(|entry| entry.item)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index).map(|entry| &entry.item)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index).map(|entry| &mut entry.item)
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Prefetches the request at `index`, which is needed soon.
    pub(crate) fn prefetch(&self, index: usize) {
        let Some(entry) = self.entries.get(index) else {
            return;
        };
        prefetch(entry);
        // Slots are used in turn, so the slot follows from the index, without reading the entry.
        // Most requests have one element.
        let back = self.entries.len() - index;
        let slot = (self.next_slot + self.limits.depth - back) % self.limits.depth;
        debug_assert_eq!(slot, entry.slot, "slots are taken in turn");
        if let Some(sge) = self.sges.get(slot * self.limits.max_sge) {
            prefetch(sge);
        }
    }

    /// The elements of the request at `index`; none if there is no such request.
    pub(crate) fn sges(&self, index: usize) -> &[Sge] {
        match self.entries.get(index) {
            Some(entry) => &self.sges[entry.slot * self.limits.max_sge..][..entry.sges],
            None => &[],
        }
    }

    /// The guard for the entry of the request that completes now.
    pub(crate) fn entry_guard(&self) -> EntryGuard {
        self.entry_guard.clone()
    }

    /// The number of requests whose completions wait to be polled.
    fn completed(&self) -> usize {
        Arc::strong_count(&self.entry_guard.0) - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The first index whose request does not satisfy `pred`. The requests that satisfy `pred` must
    /// precede all others.
    pub(crate) fn partition_point(&self, mut pred: impl FnMut(&T) -> bool) -> usize {
        self.entries.partition_point(|entry| pred(&entry.item))
    }
}

/// A posted receive request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    pub(crate) len: u64,
}

impl RecvWqe {
    pub(crate) fn new(request: &RecvRequest<'_>) -> Self {
        Self {
            wr_id: request.wr_id,
            len: total_len(request.sges),
        }
    }
}

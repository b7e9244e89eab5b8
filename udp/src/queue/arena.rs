//! The arena: memory for datagrams that the kernel copies when they are sent.

use std::collections::VecDeque;
use std::ops::Range;

/// Each datagram begins on its own cache line.
const ALIGN: usize = 64;

/// A ring of datagrams in contiguous memory. Each datagram is contiguous, and they are freed in the
/// order in which they were added. When the arena runs empty, it starts again at the beginning, so
/// an arena that holds little stays in the cache.
#[derive(Debug)]
pub(super) struct Arena {
    bytes: Box<[u8]>,
    /// The datagrams, oldest first.
    spans: VecDeque<Range<usize>>,
}

impl Arena {
    /// An arena of `bytes` bytes that will hold at most `datagrams` datagrams.
    pub(super) fn new(bytes: usize, datagrams: usize) -> Self {
        Self {
            bytes: vec![0; bytes].into_boxed_slice(),
            spans: VecDeque::with_capacity(datagrams),
        }
    }

    pub(super) fn bytes(&self, span: Range<usize>) -> &[u8] {
        &self.bytes[span]
    }

    pub(super) fn bytes_mut(&mut self, span: Range<usize>) -> &mut [u8] {
        &mut self.bytes[span]
    }

    /// The space into which the newest datagram can grow; `None` if it has not `len` bytes.
    pub(super) fn space_after_newest(&self, len: usize) -> Option<Range<usize>> {
        let end = self.spans.back()?.end;
        let limit = if self.wraps() {
            self.spans.front()?.start
        } else {
            self.bytes.len()
        };
        (end + len <= limit).then_some(end..limit)
    }

    /// The space for a new datagram, which begins at the start of the space; `None` if there is
    /// none of `len` bytes.
    pub(super) fn find_space(&self, len: usize) -> Option<Range<usize>> {
        let (Some(first), Some(last)) = (self.spans.front(), self.spans.back()) else {
            return (len <= self.bytes.len()).then_some(0..self.bytes.len());
        };
        let head = last.end.next_multiple_of(ALIGN);
        if self.wraps() {
            (head + len <= first.start).then_some(head..first.start)
        } else if head + len <= self.bytes.len() {
            Some(head..self.bytes.len())
        } else {
            (len <= first.start).then_some(0..first.start)
        }
    }

    /// Adds a datagram that lies at `span`.
    pub(super) fn push(&mut self, span: Range<usize>) {
        self.spans.push_back(span);
    }

    /// Makes the newest datagram `len` bytes longer.
    pub(super) fn extend(&mut self, len: usize) {
        if let Some(newest) = self.spans.back_mut() {
            newest.end += len;
        }
    }

    /// Frees the oldest datagram.
    pub(super) fn pop(&mut self) {
        self.spans.pop_front();
    }

    /// Whether the newest datagram lies before the oldest.
    pub(super) fn wraps(&self) -> bool {
        match (self.spans.front(), self.spans.back()) {
            (Some(first), Some(last)) => last.start < first.start,
            _ => false,
        }
    }
}

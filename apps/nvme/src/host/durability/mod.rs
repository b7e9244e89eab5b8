//! Which writes are not known to be durable.
//!
//! A write is durable when the controller has answered it and then a later flush, or when it has
//! answered it and has no volatile cache, or when the write itself asked for it. The journal is told
//! what is posted and answered, by all queues of a host, and can say at any time what a power cut or
//! the loss of the target may have taken.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;

/// The most ranges that are told apart. Beyond, ranges and the gaps between them become one.
const MAX_RANGES: usize = 65_536;
/// The most flushes of a namespace that may be outstanding or have failed, and are told apart.
const MAX_EPOCHS: usize = 64;

/// Bytes of a namespace that are not known to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The namespace's number.
    pub namespace: u32,
    /// The bytes.
    pub bytes: Range<u64>,
    /// Why they are not known to be durable.
    pub reason: Reason,
}

/// Why a write is not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The controller has not answered the write. It may have been executed, in part or as a whole.
    Unanswered,
    /// The controller has answered the write, and no later flush.
    Unflushed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unanswered => "not answered",
            Self::Unflushed => "answered, not flushed",
        })
    }
}

/// Identifies a write that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteId(u64);

/// The writes that a flush makes durable: those answered before it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlushPoint(u64);

/// The writes of a host, as far as their durability is known.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Whether an answered write may be lost until a flush.
    volatile_cache: bool,
    next: u64,
    unanswered: BTreeMap<WriteId, (u32, Range<u64>)>,
    /// For each namespace, the answered writes between two flushes, the oldest first.
    unflushed: BTreeMap<u32, VecDeque<(u64, Ranges)>>,
}

impl Journal {
    pub(super) fn new(volatile_cache: bool) -> Self {
        Self {
            volatile_cache,
            ..Self::default()
        }
    }

    /// A write of `bytes` is about to be posted.
    pub(super) fn posted(&mut self, namespace: u32, bytes: Range<u64>) -> WriteId {
        self.next += 1;
        let id = WriteId(self.next);
        self.unanswered.insert(id, (namespace, bytes));
        id
    }

    /// A write was not posted after all, or the controller has answered that it failed.
    pub(super) fn failed(&mut self, id: WriteId) {
        self.unanswered.remove(&id);
    }

    /// The controller has answered that a write succeeded. `durable`: the write asked for that.
    pub(super) fn written(&mut self, id: WriteId, durable: bool) {
        let Some((namespace, bytes)) = self.unanswered.remove(&id) else {
            return;
        };
        if self.volatile_cache && !durable {
            let epochs = self.unflushed.entry(namespace).or_default();
            match epochs.back_mut() {
                Some((_, ranges)) => ranges.insert(bytes),
                None => epochs.push_back((self.next, Ranges::of(bytes))),
            }
        }
    }

    /// A flush is about to be posted.
    pub(super) fn flush_posted(&mut self, namespace: u32) -> FlushPoint {
        let point = self.next;
        self.next += 1;
        let epochs = self.unflushed.entry(namespace).or_default();
        epochs.push_back((self.next, Ranges::default()));
        if epochs.len() > MAX_EPOCHS
            && let Some((_, oldest)) = epochs.pop_front()
            && let Some((_, second)) = epochs.front_mut()
        {
            oldest.for_each(|range| second.insert(range));
        }
        FlushPoint(point)
    }

    /// The controller has answered that a flush succeeded.
    pub(super) fn flushed(&mut self, namespace: u32, point: FlushPoint) {
        if let Some(epochs) = self.unflushed.get_mut(&namespace) {
            epochs.retain(|(begun, _)| *begun > point.0);
        }
    }

    /// The writes that are not known to be durable, by namespace and address.
    pub(super) fn not_durable(&self) -> Vec<Extent> {
        let mut known: BTreeMap<(u32, Reason), Ranges> = BTreeMap::new();
        for (&namespace, epochs) in &self.unflushed {
            let all = known.entry((namespace, Reason::Unflushed)).or_default();
            for (_, ranges) in epochs {
                ranges.for_each(|range| all.insert(range));
            }
        }
        for (namespace, bytes) in self.unanswered.values() {
            let all = known.entry((*namespace, Reason::Unanswered)).or_default();
            all.insert(bytes.clone());
        }
        let mut extents = Vec::new();
        for ((namespace, reason), ranges) in known {
            ranges.for_each(|bytes| {
                extents.push(Extent {
                    namespace,
                    bytes,
                    reason,
                })
            });
        }
        extents.sort_by_key(|e| (e.namespace, e.bytes.start, e.reason));
        extents
    }
}

/// A set of bytes: disjoint ranges, by their first byte.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn of(range: Range<u64>) -> Self {
        Self(BTreeMap::from([(range.start, range.end)]))
    }

    fn for_each(&self, mut each: impl FnMut(Range<u64>)) {
        self.0.iter().for_each(|(&start, &end)| each(start..end));
    }

    /// Adds a range, and unites it with those that it overlaps or touches.
    fn insert(&mut self, Range { mut start, mut end }: Range<u64>) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back()
            && last >= start
        {
            self.0.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.0.insert(start, end);
        if self.0.len() > MAX_RANGES {
            let first = self.0.first_key_value().map_or(start, |(&start, _)| start);
            let last = self.0.last_key_value().map_or(end, |(_, &end)| end);
            *self = Self::of(first..last);
        }
    }
}

#[cfg(test)]
mod tests;

//! Places in a queue's memory for the data of its commands.

use std::collections::BTreeMap;
use std::ops::Range;

/// Places begin at multiples of this.
const ALIGN: usize = 4096;

/// Which bytes of a region are free.
#[derive(Debug)]
pub(super) struct Arena {
    /// Free ranges by their first byte. No two of them touch.
    free: BTreeMap<usize, usize>,
}

impl Arena {
    /// All of `len` bytes, a multiple of 4096, are free.
    pub(super) fn new(len: usize) -> Self {
        Self {
            free: BTreeMap::from([(0, len)]),
        }
    }

    /// Takes `len` bytes, the first that are free; `None` if there is no such range.
    pub(super) fn take(&mut self, len: usize) -> Option<Range<usize>> {
        let whole = whole(len);
        let found = self
            .free
            .iter()
            .find(|(start, end)| **end - **start >= whole);
        let (&start, &end) = found?;
        self.free.remove(&start);
        if start + whole < end {
            self.free.insert(start + whole, end);
        }
        Some(start..start + len)
    }

    /// Gives back what [`Arena::take`] returned.
    pub(super) fn give_back(&mut self, taken: Range<usize>) {
        let mut start = taken.start;
        let mut end = start + whole(taken.len());
        if let Some(after) = self.free.remove(&end) {
            end = after;
        }
        if let Some((&before, &before_end)) = self.free.range(..start).next_back()
            && before_end == start
        {
            start = before;
        }
        self.free.insert(start, end);
    }
}

fn whole(len: usize) -> usize {
    len.max(1).next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = ALIGN;

    #[test]
    fn what_is_taken_does_not_overlap_and_comes_back_as_one_piece() {
        let mut arena = Arena::new(8 * PAGE);
        let first = arena.take(2 * PAGE).expect("free");
        let second = arena.take(PAGE + 1).expect("free");
        let third = arena.take(512).expect("free");
        assert_eq!((first.start, first.end), (0, 2 * PAGE));
        assert_eq!((second.start, second.end), (2 * PAGE, 3 * PAGE + 1));
        assert_eq!((third.start, third.end), (4 * PAGE, 4 * PAGE + 512));
        arena.give_back(second);
        assert_eq!(arena.take(4 * PAGE), None, "two ranges, both too short");
        arena.give_back(first);
        assert_eq!(arena.take(4 * PAGE), Some(0..4 * PAGE));
        arena.give_back(third);
        arena.give_back(0..4 * PAGE);
        assert_eq!(arena.take(8 * PAGE), Some(0..8 * PAGE));
        assert_eq!(arena.take(1), None);
        arena.give_back(0..8 * PAGE);

        let lower = arena.take(4 * PAGE).expect("free");
        let upper = arena.take(4 * PAGE).expect("free");
        arena.give_back(lower);
        arena.give_back(upper);
        assert_eq!(arena.take(8 * PAGE), Some(0..8 * PAGE));
    }

    #[test]
    fn a_full_arena_has_no_place() {
        let mut arena = Arena::new(PAGE);
        assert_eq!(arena.take(PAGE + 1), None);
        let taken = arena.take(PAGE).expect("free");
        assert_eq!(arena.take(1), None);
        arena.give_back(taken);
        assert!(arena.take(1).is_some());
    }
}

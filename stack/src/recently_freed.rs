//! Numbers that were freed a short while ago.

use crate::hash::KeyMap;
use std::collections::VecDeque;

/// Numbers that were freed a short while ago, so that they are not drawn again soon. A peer may
/// remember the number of an object for some time after its end: in time wait, or because nobody
/// told the peer. If another object got the number, the peer would refuse it as stale.
///
/// The time is counted in numbers: each is remembered until [`RecentlyFreed::MAX`] others have been
/// freed.
#[derive(Debug, Default)]
pub struct RecentlyFreed {
    oldest_first: VecDeque<u32>,
    numbers: KeyMap<()>,
}

impl RecentlyFreed {
    /// The maximum number of numbers that are remembered. They take up to 1 MB.
    pub const MAX: usize = 1 << 16;

    /// Remembers a number that has been freed.
    pub fn note(&mut self, number: u32) {
        if self.numbers.insert(number, ()).is_none() {
            self.oldest_first.push_back(number);
            self.keep_at_most(Self::MAX);
        }
    }

    /// Forgets the oldest numbers until at most `max` are left.
    pub fn keep_at_most(&mut self, max: usize) {
        while self.oldest_first.len() > max
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }

    /// Whether the number was freed recently.
    pub fn contains(&self, number: u32) -> bool {
        self.numbers.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_numbers_are_forgotten_first() {
        let mut freed = RecentlyFreed::default();
        for number in [7, 8, 9, 8] {
            freed.note(number);
        }
        freed.keep_at_most(2);
        let known = |freed: &RecentlyFreed| [7, 8, 9].map(|number| freed.contains(number));
        assert_eq!(known(&freed), [false, true, true]);
        freed.note(7);
        freed.keep_at_most(2);
        assert_eq!(known(&freed), [true, false, true]);
        freed.keep_at_most(0);
        assert_eq!(known(&freed), [false; 3]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut freed = RecentlyFreed::default();
        for number in 0..100_000 {
            freed.note(number);
        }
        assert_eq!(freed.oldest_first.len(), RecentlyFreed::MAX);
        assert_eq!(freed.numbers.len(), RecentlyFreed::MAX);
        assert!(freed.contains(99_999) && !freed.contains(0));
    }
}

//! Random numbers that a seed repeats.

use roce_verbs::faults::splitmix64;

/// Numbers of SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draw {
    /// The numbers of one run of a hunt.
    pub(super) fn of_run(seed: u64, run: u32) -> Self {
        let mut draw = Self(seed);
        Self(draw.next() ^ u64::from(run).wrapping_mul(STEP))
    }

    pub(super) fn next(&mut self) -> u64 {
        let drawn = splitmix64(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// A number from 0 to `end` - 1. `end` is not 0.
    pub(super) fn below(&mut self, end: u32) -> u32 {
        // A remainder below 2^32 of 64 bits is even enough, and fits.
        (self.next() % u64::from(end.max(1))) as u32
    }

    /// Whether something happens that happens once in `times`.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// One of `all`; `None` if there is none.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        all.get(self.below(count) as usize)
    }

    /// A number from 1 to 2^`bits` - 1. Each power of two begins an equally likely range, so small
    /// numbers are frequent. `bits` is 1 to 31.
    pub(super) fn often_small(&mut self, bits: u32) -> u32 {
        let first = 1 << self.below(bits);
        first + self.below(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_repeated_by_their_seed_and_run() {
        let numbers = |seed, run| {
            let mut draw = Draw::of_run(seed, run);
            [draw.next(), draw.next()]
        };
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 2));
        assert_ne!(numbers(7, 1), numbers(8, 1));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut draw = Draw::of_run(1, 1);
        let drawn: Vec<u32> = (0..2000).map(|_| draw.often_small(4)).collect();
        assert_eq!(drawn.iter().min(), Some(&1));
        assert_eq!(drawn.iter().max(), Some(&15));
        let ones = drawn.iter().filter(|number| **number == 1).count();
        assert!((400..600).contains(&ones), "{ones} of 2000, not a quarter");
        assert_eq!(draw.one_of::<u8>(&[]), None);
    }
}

//! An ordered map from PSNs that lie close together.

use crate::seq::Seq;

/// The number of PSNs that a [`Ring`] spans.
pub(super) const SPAN: usize = 1024;

/// The number of words of the bitmap.
const WORDS: usize = SPAN / 64;

/// A map from PSNs to values. All its PSNs lie within [`SPAN`] of each other. Each operation takes
/// constant time, and only [`Ring::new`] allocates.
#[derive(Debug)]
pub(super) struct Ring<T> {
    /// The value of each PSN is at the PSN modulo [`SPAN`].
    places: Box<[Option<T>]>,
    /// One bit for each place that holds a value.
    used: [u64; WORDS],
    bounds: Option<Bounds>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The lowest PSN.
    first: Seq,
    /// The highest PSN.
    last: Seq,
}

impl<T> Ring<T> {
    pub(super) fn new() -> Self {
        Self {
            places: core::iter::repeat_with(|| None).take(SPAN).collect(),
            used: [0; WORDS],
            bounds: None,
            len: 0,
        }
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The lowest PSN.
    pub(super) fn first(&self) -> Option<Seq> {
        Some(self.bounds?.first)
    }

    /// Whether a value at `at` would lie within the span of the others.
    pub(super) fn spans(&self, at: Seq) -> bool {
        self.bounds
            .is_none_or(|bounds| bounds.last.max(at) - bounds.first.min(at) < SPAN as u64)
    }

    /// The value at `at`.
    pub(super) fn get_mut(&mut self, at: Seq) -> Option<&mut T> {
        if !self.spans(at) {
            return None;
        }
        self.places[at.modulo(SPAN)].as_mut()
    }

    /// Adds a value at `at`, which the ring must span, and where there must be none.
    pub(super) fn insert(&mut self, at: Seq, value: T) {
        debug_assert!(self.spans(at), "the caller has asked");
        let place = at.modulo(SPAN);
        debug_assert!(self.places[place].is_none(), "the caller has looked");
        self.places[place] = Some(value);
        self.used[place / 64] |= 1 << (place % 64);
        self.bounds = Some(Bounds {
            first: self.bounds.map_or(at, |bounds| bounds.first.min(at)),
            last: self.bounds.map_or(at, |bounds| bounds.last.max(at)),
        });
        self.len += 1;
    }

    /// Removes the value with the lowest PSN.
    pub(super) fn pop_first(&mut self) -> Option<T> {
        let bounds = self.bounds?;
        let place = bounds.first.modulo(SPAN);
        let value = self.places[place].take()?;
        self.used[place / 64] &= !(1 << (place % 64));
        self.len -= 1;
        self.bounds = self.first_from(bounds.first).map(|first| Bounds {
            first,
            last: bounds.last,
        });
        Some(value)
    }

    /// The lowest PSN from `from` on.
    fn first_from(&self, from: Seq) -> Option<Seq> {
        let start = from.modulo(SPAN);
        let above = u64::MAX << (start % 64);
        // The word of `start` is the first and the last: its upper bits, and then its lower bits.
        for n in 0..=WORDS {
            let word = (start / 64 + n) % WORDS;
            let mask = match n {
                0 => above,
                WORDS => !above,
                _ => u64::MAX,
            };
            let bits = self.used[word] & mask;
            if bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                return Some(from + ((place + SPAN - start) % SPAN) as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};
    use roce_wire::Psn;
    use std::collections::BTreeMap;

    /// In any order of insertion, a ring holds the same as an ordered map.
    #[test]
    fn a_ring_is_like_an_ordered_map() {
        for seed in 0..50 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let (mut ring, mut model) = (Ring::new(), BTreeMap::new());
            let mut due = Seq::initial(Psn::new(0xff_fff0));
            for step in 0..3000_u32 {
                if rng.next_u32() % 2 == 0 {
                    let at = due + u64::from(rng.next_u32() % SPAN as u32);
                    assert!(ring.spans(at), "seed {seed}");
                    assert_eq!(ring.get_mut(at), model.get_mut(&at), "seed {seed}");
                    if model.insert(at, step).is_none() {
                        ring.insert(at, step);
                    } else if let Some(value) = ring.get_mut(at) {
                        *value = step;
                    }
                } else if let Some((at, value)) = model.pop_first() {
                    assert_eq!(ring.first(), Some(at), "seed {seed}");
                    assert_eq!(ring.pop_first(), Some(value), "seed {seed}");
                    due = due.max(at.next());
                }
                assert_eq!(ring.len(), model.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_ring_does_not_reach_beyond_its_span() {
        let first = Seq::initial(Psn::new(7));
        let mut ring = Ring::new();
        ring.insert(first, 0);
        assert!(ring.spans(first + (SPAN as u64 - 1)));
        assert!(!ring.spans(first + SPAN as u64));
        assert_eq!(ring.get_mut(first + SPAN as u64), None);
        ring.insert(first + (SPAN as u64 - 1), 1);
        assert!(!ring.spans(first.prev()));
        assert_eq!((ring.pop_first(), ring.pop_first()), (Some(0), Some(1)));
        assert_eq!((ring.pop_first(), ring.len()), (None, 0));
        assert!(ring.spans(first.prev()));
    }
}

//! Values over time, in bounded memory.

/// A value of an interval, which can be added to that of the next interval.
pub trait Add: Clone + Default {
    /// Adds the value of the next interval.
    fn add(&mut self, next: &Self);
}

impl Add for u64 {
    fn add(&mut self, next: &Self) {
        *self = self.saturating_add(*next);
    }
}

/// A value for each interval from the first one in which something happened to the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve<T> {
    first: usize,
    values: Vec<T>,
}

impl<T: Add> Curve<T> {
    /// Adds to the value of interval `index`, which is not before the last one.
    pub(super) fn add(&mut self, index: usize, value: &T) {
        if self.values.is_empty() {
            self.first = index;
        }
        let at = index.saturating_sub(self.first);
        if self.values.len() <= at {
            self.values.resize(at + 1, T::default());
        }
        self.values[at].add(value);
    }

    /// Joins every two intervals, of which the first has an even number.
    pub(super) fn halve(&mut self) {
        let mut halved = Self {
            first: self.first / 2,
            values: Vec::with_capacity(self.values.len() / 2 + 1),
        };
        for (value, index) in self.values.iter().zip(self.first..) {
            halved.add(index / 2, value);
        }
        *self = halved;
    }

    /// The value of interval `index`; `None` before the first and after the last one.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.values.get(index.checked_sub(self.first)?)
    }

    /// The intervals that have a value, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        (self.first..).zip(&self.values)
    }
}

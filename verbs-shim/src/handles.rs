//! The numbers by which objects can be imported.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The objects of one kind in a context, by number. An object stays until it is destroyed or the
/// context is closed, no matter how many C pointers refer to it.
pub(crate) struct Handles<T>(Mutex<Numbered<T>>);

struct Numbered<T> {
    last: u32,
    objects: HashMap<u32, Arc<T>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::new(Numbered {
            last: 0,
            objects: HashMap::new(),
        }))
    }
}

impl<T> Handles<T> {
    /// Makes an object with an unused number. 0 is never used.
    pub(crate) fn insert(&self, make: impl FnOnce(u32) -> T) -> Arc<T> {
        let mut held = self.0.lock();
        loop {
            held.last = held.last.wrapping_add(1);
            if held.last != 0 && !held.objects.contains_key(&held.last) {
                break;
            }
        }
        let number = held.last;
        let object = Arc::new(make(number));
        held.objects.insert(number, Arc::clone(&object));
        object
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<T>> {
        self.0.lock().objects.get(&number).map(Arc::clone)
    }

    pub(crate) fn remove(&self, number: u32) {
        let removed = self.0.lock().objects.remove(&number);
        // Dropped after the lock is released.
        drop(removed);
    }

    /// Removes and returns all objects.
    pub(crate) fn drain(&self) -> Vec<Arc<T>> {
        let objects = std::mem::take(&mut self.0.lock().objects);
        objects.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_once_at_a_time() {
        let handles = Handles::default();
        let first = handles.insert(|number| number);
        let second = handles.insert(|number| number);
        assert!(*first != *second && *first != 0);
        assert_eq!(handles.find(*first), Some(Arc::clone(&first)));
        handles.remove(*first);
        assert_eq!(handles.find(*first), None);
        handles.0.lock().last = *second - 1;
        let third = handles.insert(|number| number);
        assert_ne!(*third, *second, "it is taken");
        handles.0.lock().last = u32::MAX;
        let fourth = handles.insert(|number| number);
        assert_ne!(*fourth, 0);
        let mut left: Vec<u32> = handles.drain().iter().map(|object| **object).collect();
        left.sort_unstable();
        assert_eq!(left, [*fourth, *second, *third]);
        assert_eq!(handles.find(*second), None);
    }
}

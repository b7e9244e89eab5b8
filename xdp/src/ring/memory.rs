//! The memory of a ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::entry::Entry;

/// A 32-bit word that both sides of a ring share.
pub trait Word {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u32;

    /// Writes the word.
    fn store(&self, value: u32, order: Ordering);

    /// Orders all earlier accesses before all later ones, including a store before a later load.
    fn full_fence();
}

impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }

    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// The memory of one ring. Implementations only provide access; the ring chooses the memory
/// orderings.
pub trait RingMemory {
    /// The type of the ring's entries.
    type Entry: Entry;
    /// The type of the shared words.
    type Word: Word;

    /// The number of entries: a power of two that never changes.
    fn capacity(&self) -> u32;

    /// The number of entries ever produced, modulo 2³².
    fn producer(&self) -> &Self::Word;

    /// The number of entries ever consumed, modulo 2³².
    fn consumer(&self) -> &Self::Word;

    /// The kernel's flags.
    fn flags(&self) -> &Self::Word;

    /// Reads an entry. The upper bits of `index`, which count wraps, are ignored.
    fn read(&self, index: u32) -> Self::Entry;

    /// Writes an entry. The upper bits of `index`, which count wraps, are ignored.
    fn write(&self, index: u32, entry: Self::Entry);
}

impl<M: RingMemory> RingMemory for Arc<M> {
    type Entry = M::Entry;
    type Word = M::Word;

    fn capacity(&self) -> u32 {
        M::capacity(self)
    }

    fn producer(&self) -> &Self::Word {
        M::producer(self)
    }

    fn consumer(&self) -> &Self::Word {
        M::consumer(self)
    }

    fn flags(&self) -> &Self::Word {
        M::flags(self)
    }

    fn read(&self, index: u32) -> Self::Entry {
        M::read(self, index)
    }

    fn write(&self, index: u32, entry: Self::Entry) {
        M::write(self, index, entry);
    }
}

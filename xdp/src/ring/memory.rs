//! What a ring lies in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::entry::Entry;

/// A 32-bit word that both sides of a ring see.
pub trait Word {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u32;

    /// Writes the word.
    fn store(&self, value: u32, order: Ordering);

    /// Orders everything before against everything after, a store against a later load
    /// included.
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

/// The memory of one ring. Whoever implements it only gives access; the orderings
/// are the ring's.
pub trait RingMemory {
    /// What the ring carries.
    type Entry: Entry;
    /// Its shared words.
    type Word: Word;

    /// How many entries there are: a power of two, and always the same.
    fn capacity(&self) -> u32;

    /// How many entries were ever produced, modulo 2³².
    fn producer(&self) -> &Self::Word;

    /// How many entries were ever consumed, modulo 2³².
    fn consumer(&self) -> &Self::Word;

    /// The kernel's flags.
    fn flags(&self) -> &Self::Word;

    /// Reads an entry. The upper bits of `index` count rounds and are left out.
    fn read(&self, index: u32) -> Self::Entry;

    /// Writes an entry. The upper bits of `index` count rounds and are left out.
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

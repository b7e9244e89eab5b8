//! A ring in ordinary memory.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entry::Entry;
use super::memory::RingMemory;

/// A ring in ordinary memory with both sides in this process: a test double for the kernel's rings.
#[derive(Debug)]
pub struct HeapRing<E> {
    producer: AtomicU32,
    consumer: AtomicU32,
    flags: AtomicU32,
    words: Box<[AtomicU64]>,
    entries: PhantomData<fn() -> E>,
}

impl<E: Entry> HeapRing<E> {
    /// A ring of `capacity` entries, rounded up to a power of two, with both counters at
    /// `start`.
    pub fn new(capacity: u32, start: u32) -> Self {
        let words = capacity.next_power_of_two() as usize * E::WORDS;
        Self {
            producer: AtomicU32::new(start),
            consumer: AtomicU32::new(start),
            flags: AtomicU32::new(0),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            entries: PhantomData,
        }
    }

    fn slot(&self, index: u32) -> &[AtomicU64] {
        let slot = (index & (self.capacity() - 1)) as usize;
        &self.words[slot * E::WORDS..][..E::WORDS]
    }
}

impl<E: Entry> RingMemory for HeapRing<E> {
    type Entry = E;
    type Word = AtomicU32;

    fn capacity(&self) -> u32 {
        (self.words.len() / E::WORDS) as u32
    }

    fn producer(&self) -> &AtomicU32 {
        &self.producer
    }

    fn consumer(&self) -> &AtomicU32 {
        &self.consumer
    }

    fn flags(&self) -> &AtomicU32 {
        &self.flags
    }

    fn read(&self, index: u32) -> E {
        let mut words = [0; 2];
        for (word, shared) in words.iter_mut().zip(self.slot(index)) {
            *word = shared.load(Ordering::Relaxed);
        }
        E::from_words(words)
    }

    fn write(&self, index: u32, entry: E) {
        for (word, shared) in entry.to_words().into_iter().zip(self.slot(index)) {
            shared.store(word, Ordering::Relaxed);
        }
    }
}

//! A ring in memory shared with the kernel.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::memory::Mapping;
use crate::ring::{Entry, RingMemory};

/// One of the four rings of a socket.
#[derive(Debug)]
pub struct SharedRing<E> {
    /// The mapping that the pointers below point into.
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    words: NonNull<AtomicU64>,
    capacity: u32,
    entries: PhantomData<fn() -> E>,
}

// SAFETY: the pointers are into a mapping that the value owns, and all accesses through them are
// atomic.
unsafe impl<E> Send for SharedRing<E> {}
// SAFETY: as above.
unsafe impl<E> Sync for SharedRing<E> {}

impl<E: Entry> SharedRing<E> {
    /// Maps a socket's ring of `capacity` entries (a power of two) at `page_offset`.
    ///
    /// # Errors
    /// If the kernel refuses, or reports misaligned or implausible offsets.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        offsets: &libc::xdp_ring_offset,
        capacity: u32,
        page_offset: u64,
    ) -> io::Result<Self> {
        assert!(capacity.is_power_of_two());
        let entries = capacity as usize * E::WORDS * size_of::<u64>();
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let len = words
            .into_iter()
            .map(|word| word.saturating_add(4))
            .chain([offsets.desc.saturating_add(entries as u64)])
            .max()
            .unwrap_or_default();
        let aligned = words.into_iter().all(|word| word % 4 == 0) && offsets.desc.is_multiple_of(8);
        // The limit is far larger than any ring, and small enough that the additions below do not
        // overflow.
        if !aligned || len > 1 << 32 {
            let what = format!("the kernel reports impossible offsets of a ring: {offsets:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mapping = Mapping::of_fd(fd, len as usize, page_offset as libc::off_t)?;
        let start = mapping.start();
        // SAFETY: all offsets below are within the `len` bytes of the mapping.
        let at = |offset: u64| unsafe { start.add(offset as usize) };
        Ok(Self {
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            words: at(offsets.desc).cast(),
            capacity,
            entries: PhantomData,
            _mapping: mapping,
        })
    }

    fn word(&self, index: u32, word: usize) -> &AtomicU64 {
        let slot = (index & (self.capacity - 1)) as usize;
        debug_assert!(word < E::WORDS);
        // SAFETY: `slot` is below the capacity and `word` below the words of an entry, so
        // the word is in the mapping, aligned as `map` has checked.
        unsafe { self.words.add(slot * E::WORDS + word).as_ref() }
    }
}

impl<E: Entry> RingMemory for SharedRing<E> {
    type Entry = E;
    type Word = AtomicU32;

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: in the mapping and aligned, as `map` has checked.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: in the mapping and aligned, as `map` has checked.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: in the mapping and aligned, as `map` has checked.
        unsafe { self.flags.as_ref() }
    }

    fn read(&self, index: u32) -> E {
        let mut words = [0; 2];
        for (word, value) in words.iter_mut().enumerate().take(E::WORDS) {
            *value = self.word(index, word).load(Ordering::Relaxed);
        }
        E::from_words(words)
    }

    fn write(&self, index: u32, entry: E) {
        for (word, value) in entry.to_words().into_iter().enumerate().take(E::WORDS) {
            self.word(index, word).store(value, Ordering::Relaxed);
        }
    }
}

//! Tests the rings under every order in which two processors may see each other's memory accesses.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p roce-xdp --test loom --release`.
#![cfg(loom)]

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, fence};
use loom::thread;
use roce_xdp::ring::{Consumer, Producer, RingMemory, Word};

const WAKE: u32 = libc::XDP_RING_NEED_WAKEUP;

struct Shared(AtomicU32);

impl Word for Shared {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn full_fence() {
        fence(Ordering::SeqCst);
    }
}

/// A ring whose slots must not be written while the other side reads them. Loom fails if that is
/// possible in any interleaving.
struct LoomRing {
    producer: Shared,
    consumer: Shared,
    flags: Shared,
    slots: Vec<UnsafeCell<u64>>,
}

// SAFETY: loom finds every access to a slot that is not ordered after the one before.
unsafe impl Sync for LoomRing {}

impl LoomRing {
    fn new(capacity: u32, start: u32) -> Arc<Ring> {
        let word = |value| Shared(AtomicU32::new(value));
        Arc::new(Ring(Self {
            producer: word(start),
            consumer: word(start),
            flags: word(0),
            slots: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        }))
    }
}

struct Ring(LoomRing);

/// Loom's `Arc` is not the standard library's, so it gets a handle of its own.
struct Handle(Arc<Ring>);

impl RingMemory for Handle {
    type Entry = u64;
    type Word = Shared;

    fn capacity(&self) -> u32 {
        self.0.0.slots.len() as u32
    }

    fn producer(&self) -> &Shared {
        &self.0.0.producer
    }

    fn consumer(&self) -> &Shared {
        &self.0.0.consumer
    }

    fn flags(&self) -> &Shared {
        &self.0.0.flags
    }

    fn read(&self, index: u32) -> u64 {
        let slot = &self.0.0.slots[index as usize % self.0.0.slots.len()];
        // SAFETY: loom checks that nothing writes the slot concurrently.
        slot.with(|value| unsafe { *value })
    }

    fn write(&self, index: u32, entry: u64) {
        let slot = &self.0.0.slots[index as usize % self.0.0.slots.len()];
        // SAFETY: loom checks that nothing else accesses the slot concurrently.
        slot.with_mut(|value| unsafe { *value = entry });
    }
}

fn sides(ring: &Arc<Ring>) -> (Producer<Handle>, Consumer<Handle>) {
    let producer = Producer::new(Handle(Arc::clone(ring))).expect("a new ring");
    let consumer = Consumer::new(Handle(Arc::clone(ring))).expect("a new ring");
    (producer, consumer)
}

#[test]
fn entries_are_complete_when_read_and_slots_are_reused_only_after() {
    const ENTRIES: u64 = 3;
    loom::model(|| {
        // The counters wrap between the first entry and the second.
        let (mut producer, mut consumer) = sides(&LoomRing::new(2, u32::MAX));
        let writer = thread::spawn(move || {
            for entry in 0..ENTRIES {
                while !producer.push(entry).expect("a sound ring") {
                    thread::yield_now();
                }
                producer.submit();
            }
        });
        for expected in 0..ENTRIES {
            let entry = loop {
                match consumer.pop().expect("a sound ring") {
                    Some(entry) => break entry,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(entry, expected);
            consumer.release();
        }
        writer.join().expect("no panic");
    });
}

#[test]
fn a_kernel_that_goes_idle_is_woken_or_sees_the_entry() {
    loom::model(|| {
        let ring = LoomRing::new(2, 0);
        let (mut producer, mut consumer) = sides(&ring);
        let kernel = thread::spawn(move || {
            ring.0.flags.store(WAKE, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            consumer.pop().expect("a sound ring").is_some()
        });
        assert_eq!(producer.push(7), Ok(true));
        producer.submit();
        let woken = producer.needs_wakeup();
        let seen = kernel.join().expect("no panic");
        assert!(woken || seen, "the entry stays in the ring for ever");
    });
}

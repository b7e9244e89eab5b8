//! The counters under every order of memory accesses that the processor may choose.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p roce-local --test loom --release`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use roce_local::counters::Counters;

/// A ring of two places, and the receiver's doorbell.
struct Ring {
    counters: Counters,
    places: [UnsafeCell<u64>; 2],
    doorbell: Notify,
}

// SAFETY: loom finds each access to a place that is not ordered after the one before.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            counters: Counters::default(),
            places: [0; 2].map(UnsafeCell::new),
            doorbell: Notify::new(),
        })
    }

    fn send(&self, at: u64) {
        // SAFETY: loom checks that nobody else accesses the place.
        self.places[(at % 2) as usize].with_mut(|place| unsafe { *place = at + 100 });
        self.counters.advance_tail(at + 1);
        if self.counters.must_wake_receiver() {
            self.doorbell.notify();
        }
    }

    /// Takes what is there. Returns the new head.
    fn take(&self, mut head: u64) -> u64 {
        let tail = self.counters.tail();
        while head != tail {
            // SAFETY: loom checks that nobody writes the place.
            let found = self.places[(head % 2) as usize].with(|place| unsafe { *place });
            assert_eq!(found, head + 100);
            head += 1;
            self.counters.advance_head(head);
        }
        head
    }
}

#[test]
fn no_packet_waits_while_the_receiver_sleeps() {
    loom::model(|| {
        const PACKETS: u64 = 2;
        let ring = Ring::new();
        let theirs = Arc::clone(&ring);
        let sender = thread::spawn(move || (0..PACKETS).for_each(|at| theirs.send(at)));
        let mut head = ring.take(0);
        // It sleeps at most once for each packet, and then only until it is woken up.
        while head < PACKETS {
            if ring.counters.fall_asleep(head) {
                // Loom reports a deadlock if nobody rings.
                ring.doorbell.wait();
            }
            head = ring.take(head);
        }
        sender.join().expect("no panic");
    });
}

#[test]
fn a_place_is_written_again_only_when_it_was_taken() {
    loom::model(|| {
        let ring = Ring::new();
        let theirs = Arc::clone(&ring);
        let sender = thread::spawn(move || {
            for at in 0..3 {
                while at - theirs.counters.head() >= 2 {
                    thread::yield_now();
                }
                theirs.send(at);
            }
        });
        let mut head = 0;
        while head < 3 {
            head = ring.take(head);
            thread::yield_now();
        }
        sender.join().expect("no panic");
    });
}

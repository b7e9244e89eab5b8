//! Faults between a real port and the NIC.

use super::FaultSpec;
use super::model::{Copies, Copy, FaultModel};
use crate::port::{RxMeta, RxSink};
use crate::time::Instant;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many packets are held back at most; who comes then is lost, and counted.
const MAX_HELD: usize = 4096;

/// Passes received packets on, as faulty as its [`FaultSpec`] wants them.
///
/// Whoever drives it hands over each packet with [`FaultLayer::receive`], and calls
/// [`FaultLayer::release`] at [`FaultLayer::next_release`] or later. Buffers are
/// kept and used again.
#[derive(Debug)]
pub struct FaultLayer {
    model: FaultModel,
    seed: u64,
    held: BinaryHeap<Reverse<Held>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    count: u64,
    counters: FaultCounters,
}

/// A packet that arrives later; ordered by when, then by which came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    at: Instant,
    number: u64,
    slot: usize,
}

#[derive(Debug)]
struct Slot {
    meta: RxMeta,
    bytes: Vec<u8>,
}

/// What the layer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that came to it.
    pub received: u64,
    /// Packets lost on purpose.
    pub lost: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets held back so that others could overtake them.
    pub reordered: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets lost because too many were held back already.
    pub overflowed: u64,
}

impl FaultCounters {
    /// Name and value of each.
    pub fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("fault_received", self.received),
            ("fault_lost", self.lost),
            ("fault_duplicated", self.duplicated),
            ("fault_reordered", self.reordered),
            ("fault_corrupted", self.corrupted),
            ("fault_overflowed", self.overflowed),
        ]
    }
}

impl FaultLayer {
    /// A layer that does what `spec` says, with chance from `seed`.
    pub fn new(spec: FaultSpec, seed: u64) -> Self {
        Self {
            model: FaultModel::new(spec, seed),
            seed,
            held: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            counters: FaultCounters::default(),
        }
    }

    /// What it does, with the seed that it uses.
    pub fn spec(&self) -> FaultSpec {
        FaultSpec {
            seed: Some(self.seed),
            ..*self.model.spec()
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// How many packets it holds.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a packet; what arrives at once goes to `sink`.
    pub fn receive(&mut self, now: Instant, meta: &RxMeta, bytes: &[u8], sink: &mut dyn RxSink) {
        self.release(now, sink);
        self.counters.received += 1;
        let Copies { first, second } = self.model.decide(now, bytes.len());
        self.counters.lost += u64::from(first.is_none());
        self.counters.duplicated += u64::from(second.is_some());
        for copy in [first, second].into_iter().flatten() {
            self.counters.reordered += u64::from(copy.held_back);
            self.counters.corrupted += u64::from(copy.flip.is_some());
            if copy.at <= now && copy.flip.is_none() {
                sink.packet(meta, bytes);
            } else {
                self.hold(copy, meta, bytes);
            }
        }
        // Damaged packets pass through a buffer, too.
        self.release(now, sink);
    }

    /// Passes on what was held back until now.
    pub fn release(&mut self, now: Instant, sink: &mut dyn RxSink) {
        while let Some(Reverse(held)) = self.held.peek().copied() {
            if held.at > now {
                return;
            }
            self.held.pop();
            let slot = &self.slots[held.slot];
            sink.packet(&slot.meta, &slot.bytes);
            self.free.push(held.slot);
        }
    }

    /// When [`FaultLayer::release`] has something to do next.
    pub fn next_release(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.at)
    }

    fn hold(&mut self, copy: Copy, meta: &RxMeta, bytes: &[u8]) {
        if self.held.len() >= MAX_HELD {
            self.counters.overflowed += 1;
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                meta: *meta,
                bytes: Vec::new(),
            });
            self.slots.len() - 1
        });
        let buffer = &mut self.slots[slot];
        buffer.meta = *meta;
        buffer.bytes.clear();
        buffer.bytes.extend_from_slice(bytes);
        copy.damage(&mut buffer.bytes);
        self.count += 1;
        self.held.push(Reverse(Held {
            at: copy.at,
            number: self.count,
            slot,
        }));
    }
}

//! The layer around a port that injects faults into received packets.

use crate::FaultSpec;
use crate::model::{Arrival, Arrivals, FaultModel};
use core::cmp::Reverse;
use roce_port::{Effects, Layer, Loss, Port, PortError, RxSink};
use roce_stack::{Duration, Instant, RxMeta};
use std::collections::BinaryHeap;

/// The maximum number of packets that the layer holds back. Further packets are lost and counted.
const MAX_HELD: usize = 4096;

/// Passes on received packets, with the faults of a [`FaultSpec`].
///
/// As a [`Layer`] of a port, it reads the host's clock: its time begins when it is made. The layer
/// reuses its buffers.
#[derive(Debug)]
pub struct FaultLayer {
    model: FaultModel,
    began: std::time::Instant,
    held: BinaryHeap<Reverse<Held>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    count: u64,
    counters: FaultCounters,
}

/// A packet that is held back. Packets are ordered by release time, then by order of reception.
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
    received_at: Instant,
    flipped_bit: Option<usize>,
    is_duplicate: bool,
}

/// The counters of a [`FaultLayer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets received by the layer.
    pub received: u64,
    /// Packets lost by fault injection.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets held back so that others could overtake them.
    pub reordered: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets lost because too many were held back already.
    pub overflowed: u64,
}

impl FaultCounters {
    /// Name and value of each counter.
    pub fn each(&self) -> [(&'static str, u64); 6] {
        [
            ("fault_received", self.received),
            (Loss::Random.counter(), self.lost),
            ("fault_duplicated", self.duplicated),
            ("fault_reordered", self.reordered),
            ("fault_corrupted", self.corrupted),
            (Loss::Overflow.counter(), self.overflowed),
        ]
    }
}

impl FaultLayer {
    /// A layer with the faults of `spec`, whose randomness comes from `seed`.
    pub fn new(spec: FaultSpec, seed: u64) -> Self {
        Self {
            model: FaultModel::new(spec, seed),
            began: std::time::Instant::now(),
            held: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            counters: FaultCounters::default(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// The number of packets that are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Applies the faults to a packet that has just arrived from the network: passes it on to
    /// `sink` immediately, later, twice or not at all.
    pub fn take(&mut self, now: Instant, meta: &RxMeta, bytes: &[u8], sink: &mut dyn RxSink) {
        self.release(now, sink);
        self.counters.received += 1;
        let Arrivals { first, second } = self.model.decide(now, bytes.len());
        self.counters.lost += u64::from(first.is_none());
        self.counters.duplicated += u64::from(second.is_some());
        if first.is_none() {
            sink.lost(meta, bytes, Loss::Random);
        }
        for (arrival, is_second) in [(first, false), (second, true)] {
            let Some(arrival) = arrival else { continue };
            self.counters.reordered += u64::from(arrival.held_back);
            self.counters.corrupted += u64::from(arrival.flipped_bit.is_some());
            if arrival.at <= now && arrival.flipped_bit.is_none() {
                let effects = Effects {
                    is_duplicate: is_second,
                    ..Effects::default()
                };
                sink.faulty(meta, bytes, &effects);
            } else if self.held.len() >= MAX_HELD {
                self.counters.overflowed += 1;
                sink.lost(meta, bytes, Loss::Overflow);
            } else {
                self.hold(now, arrival, is_second, meta, bytes);
            }
        }
        // A corrupted packet is copied to a slot even if it is due now. Release it now.
        self.release(now, sink);
    }

    /// Passes on the held packets whose release time is `now` or earlier.
    pub fn release(&mut self, now: Instant, sink: &mut dyn RxSink) {
        while let Some(Reverse(held)) = self.held.peek().copied() {
            if held.at > now {
                return;
            }
            self.held.pop();
            let slot = &self.slots[held.slot];
            let effects = Effects {
                held: now.saturating_duration_since(slot.received_at),
                flipped_bit: slot.flipped_bit,
                is_duplicate: slot.is_duplicate,
            };
            sink.faulty(&slot.meta, &slot.bytes, &effects);
            self.free.push(held.slot);
        }
    }

    /// The next time when [`FaultLayer::release`] has something to do.
    pub fn next_release(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.at)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed()
    }

    fn hold(
        &mut self,
        now: Instant,
        arrival: Arrival,
        is_second: bool,
        meta: &RxMeta,
        bytes: &[u8],
    ) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                meta: *meta,
                bytes: Vec::new(),
                received_at: now,
                flipped_bit: None,
                is_duplicate: false,
            });
            self.slots.len() - 1
        });
        let buffer = &mut self.slots[slot];
        buffer.meta = *meta;
        buffer.received_at = now;
        buffer.flipped_bit = arrival.flipped_bit;
        buffer.is_duplicate = is_second;
        buffer.bytes.clear();
        buffer.bytes.extend_from_slice(bytes);
        arrival.damage(&mut buffer.bytes);
        self.count += 1;
        self.held.push(Reverse(Held {
            at: arrival.at,
            number: self.count,
            slot,
        }));
    }
}

impl Layer for FaultLayer {
    /// First passes on the packets whose time has come. These do not count towards `budget`.
    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        let now = self.now();
        self.release(now, sink);
        port.receive(budget, &mut |meta: &RxMeta, transport: &[u8]| {
            self.take(now, meta, transport, sink);
        })
    }

    fn next_deadline(&self) -> Option<Duration> {
        let release = self.next_release()?;
        Some(release.saturating_duration_since(self.now()))
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        self.counters.each().to_vec()
    }
}

//! The totals of a port.

use super::curve::Add;
use crate::fabric::{Drops, Meter};
use roce_stack::{Duration, Instant};

/// A port's counts, in total or in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortTotals {
    /// The time that they cover.
    pub time: Duration,
    /// Bytes on the wire, with the headers of all layers, the preamble and the gap.
    pub wire_bytes: u64,
    /// The sum of the queue's lengths in bytes at each nanosecond.
    pub queue_byte_ns: u128,
    /// The longest queue in bytes.
    pub longest_queue: usize,
    /// Packets that were marked.
    pub marked: u64,
    /// Packets that were dropped.
    pub drops: Drops,
    /// Pause frames that stopped it.
    pub pauses: u64,
    /// The time for which pause frames stopped it.
    pub paused: Duration,
}

impl PortTotals {
    /// The totals of a port at `now`, since time 0. The longest queue is the current one: a meter
    /// does not keep the longest of all time.
    pub fn of(meter: &Meter, now: Instant) -> Self {
        Self {
            time: now.saturating_duration_since(Instant::ZERO),
            wire_bytes: meter.wire_bytes,
            queue_byte_ns: meter.queue_byte_ns(now),
            longest_queue: meter.queue_bytes,
            marked: meter.marked,
            drops: meter.drops,
            pauses: meter.pauses,
            paused: meter.paused_for(now),
        }
    }

    /// The totals since an earlier moment. The longest queue is that of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            wire_bytes: self.wire_bytes.saturating_sub(earlier.wire_bytes),
            queue_byte_ns: self.queue_byte_ns.saturating_sub(earlier.queue_byte_ns),
            longest_queue: self.longest_queue,
            marked: self.marked.saturating_sub(earlier.marked),
            drops: self.drops.since(&earlier.drops),
            pauses: self.pauses.saturating_sub(earlier.pauses),
            paused: self.paused.saturating_sub(earlier.paused),
        }
    }

    /// The mean rate in bits per second.
    pub fn bits_per_sec(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 {
            self.wire_bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// The mean length of the queue in bytes.
    pub fn mean_queue(&self) -> f64 {
        let ns = self.time.as_nanos() as f64;
        if ns > 0.0 {
            self.queue_byte_ns as f64 / ns
        } else {
            0.0
        }
    }
}

impl Add for PortTotals {
    fn add(&mut self, next: &Self) {
        self.time += next.time;
        self.wire_bytes += next.wire_bytes;
        self.queue_byte_ns += next.queue_byte_ns;
        self.longest_queue = self.longest_queue.max(next.longest_queue);
        self.marked += next.marked;
        self.drops.add_all(&next.drops);
        self.pauses += next.pauses;
        self.paused += next.paused;
    }
}

//! Congestion control by round trips, for networks that don't mark packets: a window that grows a
//! little while round trips are shorter than a target. When they are longer, it shrinks in
//! proportion to the excess, at most once in a round trip. This is the rule of Swift (Kumar et al.,
//! "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM
//! 2020, section 3), with its scaling of the target by the flow's window.
//!
//! Two parts differ from Swift. First, the target is relative to the shortest round trip that the
//! connection has measured recently, unless a target is configured: the response time of a host in
//! software is not known in advance. A flow that starts late measures no round trip without the
//! queue of the earlier flows. So its target is higher than theirs, and they yield to it until all
//! of the queue is its own. To prevent this, each sender rests from time to time, as in BBR's
//! ProbeRTT: for two round trips it keeps only a few packets in flight, and so measures round trips
//! without its own queue. A sender that sees the queue shrink rests with the sender that caused it.
//! From then on, both rest at the same time. Second, a sender starts with a small window, which
//! doubles in each round trip until one is longer than the target.

use super::law::{Acked, Law};
use super::parameters::DelayParameters;
use crate::time::{Duration, Instant};

/// The maximum number of packets in flight of a sender that rests: enough for the peer to respond
/// at once.
const REST_WINDOW: u64 = 4;

/// The number of round trips before the first rest. Each later gap is twice as long, up to the
/// configured maximum.
const FIRST_REST: u32 = 8;

/// The shortest recent round trip.
#[derive(Clone, Debug)]
struct Base {
    shortest: Duration,
    /// The shortest since `epoch_start`, which replaces `shortest` at the end of the epoch.
    next_shortest: Duration,
    epoch_start: Instant,
}

impl Default for Base {
    fn default() -> Self {
        Self {
            shortest: Duration::MAX,
            next_shortest: Duration::MAX,
            epoch_start: Instant::ZERO,
        }
    }
}

impl Base {
    /// Notes a round trip. Forgets round trips that are older than `memory`, at the latest when
    /// they are twice as old: the path may have become longer.
    fn measured(&mut self, now: Instant, round_trip: Duration, memory: Duration) {
        if now.saturating_duration_since(self.epoch_start) >= memory {
            self.shortest = self.next_shortest;
            self.next_shortest = Duration::MAX;
            self.epoch_start = now;
        }
        self.next_shortest = self.next_shortest.min(round_trip);
        self.shortest = self.shortest.min(round_trip);
    }
}

/// When a sender rests, to see the round trip of an empty network.
#[derive(Clone, Debug, Default)]
struct Rests {
    /// The end of the present rest.
    until: Option<Instant>,
    /// When the last rest began; `None` before the first is planned.
    last: Option<Instant>,
    /// The number of round trips between the last rest and the next.
    gap: u32,
    /// When the sender last measured a round trip.
    last_measured: Option<Instant>,
    /// When the queue was last standing.
    queue_stood_at: Option<Instant>,
}

impl Rests {
    /// Whether it rests after this measurement. A rest lasts two round trips: its packets take one
    /// to leave the queue, and the effect is measured in the next.
    fn update(&mut self, now: Instant, trip: &Trip, most: u32) -> bool {
        let previous = self.last_measured.replace(now).unwrap_or(now);
        if self.until.is_some_and(|until| now < until) {
            return true;
        }
        self.until = None;
        let Some(last) = self.last else {
            (self.last, self.gap) = (Some(now), FIRST_REST.min(most).max(1));
            return false;
        };
        let soon = trip.smoothed * self.gap.div_ceil(4);
        if trip.in_flight <= REST_WINDOW || now.saturating_duration_since(previous) >= soon {
            // The sender had little to send for a while, which has the effect of a rest.
            self.last = Some(now);
            return false;
        }
        let since = now.saturating_duration_since(last);
        let with_others = self.queue_falls(now, trip) && since >= soon;
        if with_others || since >= trip.smoothed * self.gap {
            self.last = Some(now);
            self.until = Some(now + trip.smoothed * 2);
            self.gap = self.gap.saturating_mul(2).min(most);
        }
        self.until.is_some()
    }

    /// Whether the queue was standing recently and now is half empty: another sender rests.
    fn queue_falls(&mut self, now: Instant, trip: &Trip) -> bool {
        let queue = trip.newest.saturating_sub(trip.base);
        if queue >= trip.queue / 4 * 3 {
            self.queue_stood_at = Some(now);
        }
        let just = |stood: Instant| now.saturating_duration_since(stood) <= trip.smoothed * 2;
        queue < trip.queue / 2 && self.queue_stood_at.is_some_and(just)
    }
}

/// What a round trip shows about the queue.
struct Trip {
    /// The packets in flight at its end.
    in_flight: u64,
    newest: Duration,
    /// The moving average, in which each new one has a weight of an eighth. Flows that share a
    /// queue see the same value.
    smoothed: Duration,
    /// The round trip without a queue.
    base: Duration,
    /// The queue that the sender aims at.
    queue: Duration,
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// In packets. A window below 1 means less than one packet for each round trip.
    window: f64,
    /// The bits that a packet occupies on a link.
    packet_bits: f64,
    /// The window still doubles in each round trip: none has been longer than the target yet.
    slow_start: bool,
    /// Packets acknowledged since the last measured round trip.
    acked: u64,
    newest: Duration,
    /// The moving average, in which each new one has a weight of an eighth, except the first.
    smoothed: Duration,
    base: Base,
    rests: Rests,
    /// The next cut of the window is at this time or later.
    no_cut_before: Instant,
    /// Timeouts since the last acknowledgement.
    timeouts: u32,
}

impl Delay {
    /// The state of a new sender, whose packets have `packet_bytes` bytes.
    pub(crate) fn new(packet_bytes: usize, p: &DelayParameters) -> Self {
        Self {
            window: p.clamp(f64::from(p.initial_window)),
            packet_bits: packet_bytes as f64 * 8.0,
            slow_start: true,
            acked: 0,
            newest: Duration::ZERO,
            smoothed: Duration::ZERO,
            base: Base::default(),
            rests: Rests::default(),
            no_cut_before: Instant::ZERO,
            timeouts: 0,
        }
    }

    /// The target round trip.
    pub(crate) fn target(&self, p: &DelayParameters) -> Duration {
        let base = if p.base_target.is_zero() {
            self.base.shortest.saturating_add(p.queue_target)
        } else {
            p.base_target
        };
        base.saturating_add(p.flow_scaling(self.window))
    }

    /// Whether a round trip was measured.
    pub(crate) fn has_measured(&self) -> bool {
        self.base.shortest < Duration::MAX
    }

    /// Whether the sender rests, so that its own packets leave the queue and it measures the round
    /// trip without them.
    fn rests(&mut self, now: Instant, in_flight: u64, p: &DelayParameters) -> bool {
        if self.slow_start || !p.base_target.is_zero() {
            return false;
        }
        let trip = Trip {
            in_flight,
            newest: self.newest,
            smoothed: self.smoothed,
            base: self.base.shortest,
            queue: self.target(p).saturating_sub(self.base.shortest),
        };
        self.rests.update(now, &trip, p.rest_interval)
    }

    fn grow(&mut self, acked: f64, p: &DelayParameters) {
        self.window += if self.slow_start {
            acked
        } else if self.window >= 1.0 {
            p.additive_increase / self.window * acked
        } else {
            p.additive_increase * acked
        };
    }

    /// Multiplies the window by `factor`, unless it was cut within the last round trip.
    fn cut(&mut self, now: Instant, factor: f64, p: &DelayParameters) {
        self.slow_start = false;
        if now < self.no_cut_before {
            return;
        }
        self.window = p.clamp(self.window * factor);
        self.no_cut_before = now + self.newest;
    }
}

impl Law for Delay {
    type Parameters = DelayParameters;

    fn on_acked(&mut self, now: Instant, acked: &Acked, p: &DelayParameters) {
        self.timeouts = 0;
        self.acked += acked.packets;
        let Some(delay) = acked.round_trip else {
            return;
        };
        self.newest = delay;
        self.smoothed = match self.has_measured() {
            true => (self.smoothed * 7 + delay) / 8,
            false => delay,
        };
        self.base.measured(now, delay, p.base_memory);
        let packets = core::mem::take(&mut self.acked) as f64;
        if self.rests(now, acked.in_flight, p) {
            return;
        }
        let target = self.target(p);
        if delay >= target {
            let excess = (delay - target).as_secs_f64() / delay.as_secs_f64().max(1e-9);
            let factor = (1.0 - p.beta * excess).max(1.0 - p.max_decrease);
            self.cut(now, factor, p);
        } else if acked.in_flight as f64 >= self.window / 2.0 {
            // If the sender does not use its window, the round trip does not show what the network
            // can carry.
            self.grow(packets.min(self.window.max(1.0)), p);
            self.window = p.clamp(self.window);
        }
    }

    fn on_loss(&mut self, now: Instant, timeout: bool, p: &DelayParameters) {
        if timeout {
            self.timeouts = self.timeouts.saturating_add(1);
            if self.timeouts >= p.timeouts_to_reset {
                self.slow_start = false;
                self.window = p.clamp(0.0);
                return;
            }
        }
        self.cut(now, 1.0 - p.max_decrease, p);
    }

    /// A window of less than one packet is a rate: one packet in several round trips.
    fn rate(&self, p: &DelayParameters) -> Option<f64> {
        let round_trip = self.newest.as_secs_f64();
        (self.window < 1.0 && round_trip > 0.0)
            .then(|| (self.window * self.packet_bits / round_trip).max(p.min_rate()))
    }

    fn congestion_window(&self) -> Option<u64> {
        let window = (self.window as u64).max(1);
        Some(match self.rests.until {
            Some(_) => window.min(REST_WINDOW),
            None => window,
        })
    }
}

#[cfg(test)]
mod tests;

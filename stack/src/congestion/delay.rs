//! Congestion control by round trips, for networks that don't mark: a window that grows a
//! little while round trips are shorter than a target, and shrinks by how much they are
//! longer, at most once in a round trip. That is the control law of Swift (Kumar et al.,
//! "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM
//! 2020, section 3), with its scaling of the target by the flow's window.
//!
//! Ours is what the target is measured from, unless it is said: the shortest round trip that
//! the connection has seen, since nobody can say beforehand what a host in software takes.
//! And ours is the start: from a small window, which doubles in each round trip until one is
//! longer than the target.

use super::law::{Acked, Law};
use super::parameters::DelayParameters;
use crate::time::{Duration, Instant};

/// The state of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    /// In packets; less than one, if one takes several round trips.
    window: f64,
    /// What a packet takes of a link.
    packet_bits: f64,
    /// No round trip has been too long yet.
    starts: bool,
    /// Packets acknowledged since a round trip was told of.
    acked: u64,
    /// The newest round trip, and the shortest.
    newest: Duration,
    shortest: Duration,
    /// No cut before this.
    spared_until: Instant,
    /// Timeouts since something was acknowledged.
    timeouts: u32,
}

impl Delay {
    /// A sender of packets of so many bytes begins.
    pub(crate) fn new(packet_bytes: usize, p: &DelayParameters) -> Self {
        Self {
            window: p.clamp(f64::from(p.initial_window)),
            packet_bits: packet_bytes as f64 * 8.0,
            starts: true,
            acked: 0,
            newest: Duration::ZERO,
            shortest: Duration::MAX,
            spared_until: Instant::ZERO,
            timeouts: 0,
        }
    }

    /// The round trip that it aims at.
    pub(crate) fn target(&self, p: &DelayParameters) -> Duration {
        let base = if p.base_target.is_zero() {
            self.shortest.saturating_add(p.queue_target)
        } else {
            p.base_target
        };
        base.saturating_add(p.flow_scaling(self.window))
    }

    /// Whether a round trip was told of.
    pub(crate) fn has_measured(&self) -> bool {
        self.shortest < Duration::MAX
    }

    fn grow(&mut self, acked: f64, p: &DelayParameters) {
        self.window += if self.starts {
            acked
        } else if self.window >= 1.0 {
            p.additive_increase / self.window * acked
        } else {
            p.additive_increase * acked
        };
    }

    /// Leaves so much of the window, unless it was cut within the last round trip.
    fn cut(&mut self, now: Instant, factor: f64, p: &DelayParameters) {
        self.starts = false;
        if now < self.spared_until {
            return;
        }
        self.window = p.clamp(self.window * factor);
        self.spared_until = now + self.newest;
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
        self.shortest = self.shortest.min(delay);
        let packets = core::mem::take(&mut self.acked) as f64;
        let target = self.target(p);
        if delay >= target {
            let excess = (delay - target).as_secs_f64() / delay.as_secs_f64().max(1e-9);
            let factor = (1.0 - p.beta * excess).max(1.0 - p.max_decrease);
            self.cut(now, factor, p);
        } else if acked.in_flight as f64 >= self.window / 2.0 {
            // A window that is not used says nothing of what the network bears.
            self.grow(packets.min(self.window.max(1.0)), p);
            self.window = p.clamp(self.window);
        }
    }

    fn on_loss(&mut self, now: Instant, timeout: bool, p: &DelayParameters) {
        if timeout {
            self.timeouts = self.timeouts.saturating_add(1);
            if self.timeouts >= p.timeouts_to_reset {
                self.starts = false;
                self.window = p.clamp(0.0);
                return;
            }
        }
        self.cut(now, 1.0 - p.max_decrease, p);
    }

    /// A window of less than a packet is a pause between packets.
    fn rate(&self, p: &DelayParameters) -> Option<f64> {
        let round_trip = self.newest.as_secs_f64();
        (self.window < 1.0 && round_trip > 0.0)
            .then(|| (self.window * self.packet_bits / round_trip).max(p.min_rate()))
    }

    fn window(&self) -> Option<u64> {
        Some((self.window as u64).max(1))
    }
}

#[cfg(test)]
mod tests;

//! Decides which faults affect each packet.

use crate::FaultSpec;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use roce_stack::{Duration, Instant};

/// Draws the faults of the packets in one direction of a network, one packet at a time.
#[derive(Clone, Debug)]
pub struct FaultModel {
    spec: FaultSpec,
    rng: ChaCha8Rng,
    /// Whether the channel of [`Burst`](crate::Burst) is bad.
    bad: bool,
    /// The arrival time of the last packet that was not held back.
    latest: Instant,
}

/// One arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time of arrival.
    pub at: Instant,
    /// Whether the packet is held back, so that later packets may overtake it.
    pub held_back: bool,
    /// The index of the flipped bit, counted from the first byte's lowest bit.
    pub flipped_bit: Option<usize>,
}

/// The arrivals of one packet: none, one or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The packet, unless it is lost.
    pub first: Option<Arrival>,
    /// The duplicate, if there is one.
    pub second: Option<Arrival>,
}

impl Arrival {
    /// Flips [`Arrival::flipped_bit`] of `bytes`, if there is one.
    pub fn damage(&self, bytes: &mut [u8]) {
        if let Some(bit) = self.flipped_bit
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

impl FaultModel {
    /// A network with the faults of `spec`, whose seed is replaced by `seed`.
    pub fn new(spec: FaultSpec, seed: u64) -> Self {
        Self {
            spec,
            rng: ChaCha8Rng::seed_from_u64(seed),
            bad: false,
            latest: Instant::ZERO,
        }
    }

    /// The current faults.
    pub fn spec(&self) -> &FaultSpec {
        &self.spec
    }

    /// Replaces the faults from now on. The random number generator keeps its state.
    pub fn change(&mut self, spec: FaultSpec) {
        self.spec = spec;
        self.bad = false;
    }

    /// Draws the arrivals of a packet of `len` bytes that would arrive at `now` without faults.
    pub fn decide(&mut self, now: Instant, len: usize) -> Arrivals {
        // The burst model advances with every packet, even if the independent loss drops the
        // packet.
        let burst = self.draw_burst_loss();
        if self.spec.loss.happens(&mut self.rng) || burst {
            return Arrivals::default();
        }
        let second = self
            .spec
            .duplicate
            .happens(&mut self.rng)
            .then(|| self.draw_arrival(now, len));
        Arrivals {
            first: Some(self.draw_arrival(now, len)),
            second,
        }
    }

    /// Whether the next packet is lost in a burst.
    fn draw_burst_loss(&mut self) -> bool {
        let Some(burst) = self.spec.burst else {
            return false;
        };
        if self.bad {
            self.bad = !self.draw_one_in(burst.packets);
        } else {
            self.bad = burst.begin.happens(&mut self.rng);
        }
        self.bad && burst.loss.happens(&mut self.rng)
    }

    fn draw_arrival(&mut self, now: Instant, len: usize) -> Arrival {
        let mut at = now + self.spec.delay;
        if !self.spec.jitter.is_zero() {
            at = at + self.draw_up_to(self.spec.jitter);
        }
        let held_back = self.spec.reorder.happens(&mut self.rng);
        if held_back {
            at = at + self.draw_up_to(self.spec.reorder_by.0);
        } else {
            self.latest = self.latest.max(at);
            at = self.latest;
        }
        let flips = len > 0 && self.spec.corrupt.happens(&mut self.rng);
        let flipped_bit = flips.then(|| (self.rng.next_u64() % (8 * len as u64)) as usize);
        Arrival {
            at,
            held_back,
            flipped_bit,
        }
    }

    fn draw_one_in(&mut self, n: u32) -> bool {
        self.rng.next_u64().is_multiple_of(u64::from(n.max(1)))
    }

    fn draw_up_to(&mut self, most: Duration) -> Duration {
        let ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        match ns.checked_add(1) {
            Some(choices) => Duration::from_nanos(self.rng.next_u64() % choices),
            None => most,
        }
    }
}

//! Keeps a sender to its rate: short bursts, and pauses between them.

use super::dcqcn::Dcqcn;
use super::parameters::DcqcnParameters;
use crate::time::{Duration, Instant};

/// The longest burst: what a port hands to the network at once.
const LONGEST_BURST: f64 = 65536.0;

/// A pause lasts about as long as this, so that it is worth a timer.
const PAUSE_SECONDS: f64 = 50e-6;

/// A sender whose rate is limited.
#[derive(Debug)]
pub(crate) struct Limiter {
    law: Dcqcn,
    /// Bytes that may leave now. Less than none if the last packet was longer than what
    /// was left.
    credit: f64,
    updated: Instant,
    /// The end of the pause.
    waits: Option<Instant>,
    /// What left last answered the peer.
    pub(crate) answered: bool,
}

impl Limiter {
    /// The first CNP has come.
    pub(crate) fn new(now: Instant, p: &DcqcnParameters) -> Self {
        Self {
            law: Dcqcn::new(now, p),
            credit: 0.0,
            updated: now,
            waits: None,
            answered: false,
        }
    }

    /// Another CNP has come.
    pub(crate) fn on_cnp(&mut self, now: Instant, p: &DcqcnParameters) {
        self.advance(now, p);
        if self.law.is_over(p) {
            self.law = Dcqcn::new(now, p);
        } else {
            self.law.on_cnp(now, p);
        }
    }

    /// The end of the pause, if there is one now.
    pub(crate) fn waits(&self) -> Option<Instant> {
        self.waits
    }

    /// Whether there is no need of a limit any more, as of the last look at the time.
    pub(crate) fn is_over(&self, p: &DcqcnParameters) -> bool {
        self.law.is_over(p)
    }

    /// Looks whether the pause is over by now.
    pub(crate) fn wake(&mut self, now: Instant, p: &DcqcnParameters) {
        if self.waits.is_some_and(|until| until <= now) {
            self.advance(now, p);
            self.waits = self.pause(now);
        }
    }

    /// How many packets of this length may leave now; if none, a pause begins.
    pub(crate) fn allowed(&mut self, now: Instant, bytes: usize, p: &DcqcnParameters) -> usize {
        if self.waits.is_none() {
            self.advance(now, p);
            self.waits = self.pause(now);
        }
        if self.waits.is_some() {
            return 0;
        }
        // One at least: less than a packet's worth of credit is good for one.
        ((self.credit / bytes as f64) as usize).max(1)
    }

    /// So many bytes have left.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, p: &DcqcnParameters) {
        self.credit -= bytes as f64;
        self.law.on_sent(bytes, p);
        self.waits = self.pause(now);
    }

    /// Lets time pass: timers have their turns, and credit comes in at the rate.
    fn advance(&mut self, now: Instant, p: &DcqcnParameters) {
        while !self.law.is_over(p) && self.law.next_timer() <= now {
            let at = self.law.next_timer();
            self.earn(at);
            self.law.on_timer(at, p);
        }
        self.earn(now);
        self.credit = self.credit.min(LONGEST_BURST);
    }

    fn earn(&mut self, to: Instant) {
        let time = to.saturating_duration_since(self.updated);
        self.credit += time.as_secs_f64() * self.law.rate() / 8.0;
        self.updated = self.updated.max(to);
    }

    /// Without credit: until there is enough for a burst, or the rate is higher.
    fn pause(&self, now: Instant) -> Option<Instant> {
        if self.credit > 0.0 {
            return None;
        }
        let bytes_per_second = self.law.rate() / 8.0;
        let burst = (bytes_per_second * PAUSE_SECONDS).min(LONGEST_BURST);
        let seconds = (burst - self.credit) / bytes_per_second;
        // A nanosecond more, so that rounding leaves no credit missing.
        let until = now + Duration::from_secs_f64(seconds) + Duration::from_nanos(1);
        Some(until.min(self.law.next_increase().max(now + Duration::from_nanos(1))))
    }
}

#[cfg(test)]
mod tests;

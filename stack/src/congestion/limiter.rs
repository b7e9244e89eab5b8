//! Keeps a sender to its rate: short bursts, and pauses between them.

use super::CongestionControl;
use super::dcqcn::Dcqcn;
use super::delay::Delay;
use super::law::{Acked, Law, Sender};
use crate::time::{Duration, Instant};

/// The longest burst: what a port hands to the network at once.
const LONGEST_BURST: f64 = 65536.0;

/// A pause lasts about as long as this, so that it is worth a timer. Bursts of many senders
/// at once are marked for themselves: at 50 us, two that shared 40 Gbit/s left an eighth of it
/// unused in the simulation.
const PAUSE_SECONDS: f64 = 10e-6;

/// A sender that congestion control rules.
#[derive(Debug)]
pub(crate) struct Limiter {
    law: Sender,
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
    /// The first CNP has come. `None` if it changes nothing.
    pub(crate) fn after_cnp(now: Instant, control: &CongestionControl) -> Option<Self> {
        match control {
            CongestionControl::Dcqcn(p) => Some(Self::new(now, Sender::Dcqcn(Dcqcn::new(now, p)))),
            CongestionControl::None | CongestionControl::Delay(_) => None,
        }
    }

    /// A sender of packets of so many bytes begins, whom acknowledgements reach or not.
    /// `neighbour` is the rate of another one to the same peer that just got a CNP. `None`
    /// if it is not limited.
    pub(crate) fn at_start(
        now: Instant,
        control: &CongestionControl,
        packet_bytes: usize,
        acknowledged: bool,
        neighbour: Option<f64>,
    ) -> Option<Self> {
        let law = match control {
            CongestionControl::None => return None,
            CongestionControl::Dcqcn(p) => {
                let start = p
                    .start()
                    .filter(|start| neighbour.is_none_or(|n| *start < n));
                let rate = start.or(neighbour)?;
                Sender::Dcqcn(Dcqcn::starting(now, rate, start.is_none(), p))
            }
            CongestionControl::Delay(p) => {
                acknowledged.then(|| Sender::Delay(Delay::new(packet_bytes, p)))?
            }
        };
        let mut new = Self::new(now, law);
        // It has rested.
        new.credit = packet_bytes as f64;
        Some(new)
    }

    fn new(now: Instant, law: Sender) -> Self {
        Self {
            law,
            credit: 0.0,
            updated: now,
            waits: None,
            answered: false,
        }
    }

    /// Another CNP has come.
    pub(crate) fn on_cnp(&mut self, now: Instant, control: &CongestionControl) {
        self.advance(now, control);
        match (&mut self.law, control) {
            (Sender::Dcqcn(law), CongestionControl::Dcqcn(p)) if law.is_at_full_rate(p) => {
                *law = Dcqcn::new(now, p);
                // What the full rate had earned, it earned of no congestion.
                self.credit = self.credit.min(0.0);
            }
            (law, _) => law.on_cnp(now, control),
        }
    }

    /// The peer has acknowledged something.
    pub(crate) fn on_acked(&mut self, now: Instant, acked: &Acked, control: &CongestionControl) {
        self.advance(now, control);
        self.law.on_acked(now, acked, control);
    }

    /// Something was lost; `timeout` if nothing at all came back.
    pub(crate) fn on_loss(&mut self, now: Instant, timeout: bool, control: &CongestionControl) {
        self.advance(now, control);
        self.law.on_loss(now, timeout, control);
    }

    /// The end of the pause, if there is one now.
    pub(crate) fn waits(&self) -> Option<Instant> {
        self.waits
    }

    /// How many packets may be in flight.
    pub(crate) fn window(&self) -> Option<u64> {
        self.law.window()
    }

    /// The rate in bits a second, as of the last look at the time.
    pub(crate) fn rate(&self, control: &CongestionControl) -> Option<f64> {
        self.law.rate(control)
    }

    /// The algorithm's state as of `now`.
    pub(crate) fn law_at(&self, now: Instant, control: &CongestionControl) -> Sender {
        let mut law = self.law.clone();
        while let Some(at) = law.next_timer().filter(|at| *at <= now) {
            if law.is_over(control) {
                break;
            }
            law.on_timer(at, control);
        }
        law
    }

    /// Whether there is no need of a limit any more, as of the last look at the time.
    pub(crate) fn is_over(&self, control: &CongestionControl) -> bool {
        self.law.is_over(control)
    }

    /// Looks whether the pause is over by now.
    pub(crate) fn wake(&mut self, now: Instant, control: &CongestionControl) {
        if self.waits.is_some_and(|until| until <= now) {
            self.advance(now, control);
            self.waits = self.pause(now, control);
        }
    }

    /// How many packets of this length may leave now; if none, a pause begins.
    pub(crate) fn allowed(
        &mut self,
        now: Instant,
        bytes: usize,
        control: &CongestionControl,
    ) -> usize {
        if self.waits.is_none() {
            self.advance(now, control);
            self.waits = self.pause(now, control);
        }
        if self.waits.is_some() {
            return 0;
        }
        if self.law.rate(control).is_none() {
            return usize::MAX;
        }
        // One at least: less than a packet's worth of credit is good for one.
        ((self.credit / bytes as f64) as usize).max(1)
    }

    /// So many bytes have left.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, control: &CongestionControl) {
        self.credit -= bytes as f64;
        self.law.on_sent(bytes, control);
        self.waits = self.pause(now, control);
    }

    /// Lets time pass: timers have their turns, and credit comes in at the rate.
    fn advance(&mut self, now: Instant, control: &CongestionControl) {
        // Whatever is due now has had its turn.
        if self.updated == now {
            return;
        }
        while let Some(at) = self.law.next_timer().filter(|at| *at <= now) {
            if self.law.is_over(control) {
                break;
            }
            self.earn(at, control);
            self.law.on_timer(at, control);
        }
        self.earn(now, control);
        self.credit = self.credit.min(LONGEST_BURST);
    }

    fn earn(&mut self, to: Instant, control: &CongestionControl) {
        let time = to.saturating_duration_since(self.updated);
        match self.law.rate(control) {
            Some(rate) => self.credit += time.as_secs_f64() * rate / 8.0,
            None => self.credit = LONGEST_BURST,
        }
        self.updated = self.updated.max(to);
    }

    /// Without credit: until there is enough for a burst.
    fn pause(&self, now: Instant, control: &CongestionControl) -> Option<Instant> {
        let rate = self.law.rate(control)?;
        if self.credit > 0.0 {
            return None;
        }
        let burst = (rate / 8.0 * PAUSE_SECONDS).min(LONGEST_BURST);
        let bits = (burst - self.credit) * 8.0;
        let until = self.law.when_allowed(now, bits, control);
        Some(until.max(now + Duration::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests;

//! Keeps a sender to its rate: short bursts, and pauses between them.

use super::CongestionControl;
use super::dcqcn::Dcqcn;
use super::delay::Delay;
use super::law::{Acked, Law, after};
use super::rate_limit::RateLimit;
use super::sender::Sender;
use crate::time::{Duration, Instant};

/// The longest burst: what a port hands to the network at once.
const LONGEST_BURST: f64 = 65536.0;

/// A pause lasts about as long as this, so that it is worth a timer. Bursts of many senders
/// at once are marked for themselves: at 50 us, two that shared 40 Gbit/s left an eighth of it
/// unused in the simulation.
const PAUSE_SECONDS: f64 = 10e-6;

/// A sender that congestion control rules, or its program limits, or both: then the lower
/// rate is the one that counts.
#[derive(Debug)]
pub(crate) struct Limiter {
    law: Option<Sender>,
    limit: RateLimit,
    /// The most credit that it may have, in bytes.
    most_credit: f64,
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
            CongestionControl::Dcqcn(p) => {
                let law = Sender::Dcqcn(Dcqcn::new(now, p));
                Some(Self::new(now, Some(law)))
            }
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
        let mut new = Self::new(now, Some(law));
        // It has rested.
        new.credit = packet_bytes as f64;
        Some(new)
    }

    /// Its program limits a sender that nothing else does. `None` if it doesn't.
    pub(crate) fn limited(now: Instant, limit: RateLimit, packet_bytes: usize) -> Option<Self> {
        limit.rate()?;
        Some(Self {
            limit,
            most_credit: most_credit(limit, packet_bytes),
            ..Self::new(now, None)
        })
    }

    fn new(now: Instant, law: Option<Sender>) -> Self {
        Self {
            law,
            limit: RateLimit::NONE,
            most_credit: LONGEST_BURST,
            credit: 0.0,
            updated: now,
            waits: None,
            answered: false,
        }
    }

    /// What its program limits it to is another rate from now on, or none. That may end its
    /// pause: then [`Limiter::wake`] does so.
    pub(crate) fn set_limit(
        &mut self,
        now: Instant,
        limit: RateLimit,
        packet_bytes: usize,
        control: &CongestionControl,
    ) {
        self.advance(now, control);
        self.limit = limit;
        self.most_credit = most_credit(limit, packet_bytes);
        self.credit = self.most_credit.min(self.credit);
        if self.waits.is_some() {
            // One that is over has still to be ended.
            self.waits = self.pause(now, control).or(Some(now));
        }
    }

    /// Congestion control rules it from now on, too.
    pub(crate) fn follow(&mut self, now: Instant, ruled: Self, control: &CongestionControl) {
        self.advance(now, control);
        self.law = ruled.law;
        self.credit = self.credit.min(ruled.credit);
    }

    /// Congestion control does not rule it any more. Returns whether nothing limits it now.
    pub(crate) fn forget_law(&mut self) -> bool {
        self.law = None;
        self.limit.rate().is_none()
    }

    /// Whether congestion control rules it.
    pub(crate) fn is_ruled(&self) -> bool {
        self.law.is_some()
    }

    /// A CNP has come.
    pub(crate) fn on_cnp(&mut self, now: Instant, control: &CongestionControl) {
        self.advance(now, control);
        match (&mut self.law, control) {
            (Some(Sender::Dcqcn(law)), CongestionControl::Dcqcn(p)) if law.is_at_full_rate(p) => {
                *law = Dcqcn::new(now, p);
                // What the full rate had earned, it earned of no congestion.
                self.credit = self.credit.min(0.0);
            }
            (Some(law), _) => law.on_cnp(now, control),
            (None, _) => {
                if let Some(ruled) = Self::after_cnp(now, control) {
                    self.follow(now, ruled, control);
                }
            }
        }
    }

    /// The peer has acknowledged something.
    pub(crate) fn on_acked(&mut self, now: Instant, acked: &Acked, control: &CongestionControl) {
        self.advance(now, control);
        if let Some(law) = &mut self.law {
            law.on_acked(now, acked, control);
        }
    }

    /// Something was lost; `timeout` if nothing at all came back.
    pub(crate) fn on_loss(&mut self, now: Instant, timeout: bool, control: &CongestionControl) {
        self.advance(now, control);
        if let Some(law) = &mut self.law {
            law.on_loss(now, timeout, control);
        }
    }

    /// The end of the pause, if there is one now.
    pub(crate) fn waits(&self) -> Option<Instant> {
        self.waits
    }

    /// How many packets may be in flight.
    pub(crate) fn window(&self) -> Option<u64> {
        self.law.as_ref()?.window()
    }

    /// The rate in bits a second that it keeps to, as of the last look at the time.
    fn rate(&self, control: &CongestionControl) -> Option<f64> {
        lower(self.law_rate(control), self.limit.rate())
    }

    /// The rate in bits a second that congestion control gives it, as of the last look at the
    /// time.
    pub(crate) fn law_rate(&self, control: &CongestionControl) -> Option<f64> {
        self.law.as_ref()?.rate(control)
    }

    /// The algorithm's state as of `now`, if one rules it.
    pub(crate) fn law_at(&self, now: Instant, control: &CongestionControl) -> Option<Sender> {
        let mut law = self.law.clone()?;
        while let Some(at) = law.next_timer().filter(|at| *at <= now) {
            if law.is_over(control) {
                break;
            }
            law.on_timer(at, control);
        }
        Some(law)
    }

    /// Whether congestion control has ruled it and has no need to any more, as of the last
    /// look at the time.
    pub(crate) fn is_over(&self, control: &CongestionControl) -> bool {
        self.law.as_ref().is_some_and(|law| law.is_over(control))
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
        if self.rate(control).is_none() {
            return usize::MAX;
        }
        // One at least: less than a packet's worth of credit is good for one.
        ((self.credit / bytes as f64) as usize).max(1)
    }

    /// So many bytes have left.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, control: &CongestionControl) {
        self.credit -= bytes as f64;
        if let Some(law) = &mut self.law {
            law.on_sent(bytes, control);
        }
        self.waits = self.pause(now, control);
    }

    /// Lets time pass: timers have their turns, and credit comes in at the rate.
    fn advance(&mut self, now: Instant, control: &CongestionControl) {
        // Whatever is due now has had its turn.
        if self.updated == now {
            return;
        }
        while let Some(at) = self.next_timer().filter(|at| *at <= now) {
            if self.is_over(control) {
                break;
            }
            self.earn(at, control);
            if let Some(law) = &mut self.law {
                law.on_timer(at, control);
            }
        }
        self.earn(now, control);
        self.credit = self.credit.min(self.most_credit);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.law.as_ref()?.next_timer()
    }

    fn earn(&mut self, to: Instant, control: &CongestionControl) {
        let time = to.saturating_duration_since(self.updated);
        match self.rate(control) {
            Some(rate) => self.credit += time.as_secs_f64() * rate / 8.0,
            None => self.credit = self.most_credit,
        }
        self.updated = self.updated.max(to);
    }

    /// Without credit: until there is enough for a burst.
    fn pause(&self, now: Instant, control: &CongestionControl) -> Option<Instant> {
        let rate = self.rate(control)?;
        if self.credit > 0.0 {
            return None;
        }
        let burst = (rate / 8.0 * PAUSE_SECONDS).min(self.most_credit);
        let bits = (burst - self.credit) * 8.0;
        let by_law = self.law.as_ref();
        let by_law = by_law.map_or(now, |law| law.when_allowed(now, bits, control));
        let by_limit = self
            .limit
            .rate()
            .map_or(now, |rate| after(now, bits / rate));
        // Each rate alone has allowed enough by then. If both together have not, because the
        // law's was the lower one for a while, another pause follows.
        let until = by_law.max(by_limit);
        Some(until.max(now + Duration::from_nanos(1)))
    }
}

/// The credit for the longest burst that the program wants, of packets of so many bytes at
/// most. The last of them needs no more than a byte of it.
fn most_credit(limit: RateLimit, packet_bytes: usize) -> f64 {
    match limit.max_burst_bytes {
        0 => LONGEST_BURST,
        bytes => (f64::from(bytes) - packet_bytes as f64 + 1.0).clamp(1.0, LONGEST_BURST),
    }
}

/// The lower one of two rates, of which `None` is any.
pub(crate) fn lower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;

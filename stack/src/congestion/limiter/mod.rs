//! Paces a sender: it sends short bursts with pauses between them, so that it keeps to its rate.

use super::CongestionControl;
use super::dcqcn::Dcqcn;
use super::delay::Delay;
use super::law::{Acked, Law, after};
use super::rate_limit::RateLimit;
use super::sender::Sender;
use crate::time::{Duration, Instant};

/// The longest burst in bytes: what a port hands to the network at once.
const LONGEST_BURST: f64 = 65536.0;

/// The approximate length of a pause: long enough to be worth a timer, but not longer, since longer
/// pauses mean longer bursts, and bursts of several senders that coincide cause marks by
/// themselves. With 50 us, two senders that shared 40 Gbit/s left an eighth of it unused in the
/// simulation.
const PAUSE_SECONDS: f64 = 10e-6;

/// Limits a sender to the rate of congestion control or to that of the application, and to the
/// lower one if there are both.
#[derive(Debug)]
pub(crate) struct Limiter {
    law: Option<Sender>,
    limit: RateLimit,
    /// The maximum credit, in bytes.
    max_credit: f64,
    /// Bytes that may leave now. Negative if the last packet was longer than the credit.
    credit: f64,
    updated: Instant,
    /// The end of the present pause; `None` if the sender does not pause.
    paused_until: Option<Instant>,
    /// The last burst consisted of replies to the peer, not of requests.
    pub(crate) last_was_reply: bool,
}

impl Limiter {
    /// The limiter of a sender that gets its first CNP. `None` if the CNP has no effect.
    pub(crate) fn after_cnp(now: Instant, control: &CongestionControl) -> Option<Self> {
        match control {
            CongestionControl::Dcqcn(p) => {
                let law = Sender::Dcqcn(Dcqcn::new(now, p));
                Some(Self::new(now, Some(law)))
            }
            CongestionControl::None | CongestionControl::Delay(_) => None,
        }
    }

    /// The limiter of a sender that starts, with packets of `packet_bytes` bytes; `acknowledged` if
    /// it gets acknowledgements. `neighbour` is the rate of another sender to the same peer that
    /// has just got a CNP. `None` if the sender is not limited.
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
        // Starts with credit for one packet.
        new.credit = packet_bytes as f64;
        Some(new)
    }

    /// The limiter of a sender that only the application limits. `None` if `limit` is no limit.
    pub(crate) fn limited(now: Instant, limit: RateLimit, packet_bytes: usize) -> Option<Self> {
        limit.rate()?;
        Some(Self {
            limit,
            max_credit: max_credit(limit, packet_bytes),
            ..Self::new(now, None)
        })
    }

    fn new(now: Instant, law: Option<Sender>) -> Self {
        Self {
            law,
            limit: RateLimit::NONE,
            max_credit: LONGEST_BURST,
            credit: 0.0,
            updated: now,
            paused_until: None,
            last_was_reply: false,
        }
    }

    /// Changes or removes the application's rate limit. This may shorten the pause; the next
    /// [`Limiter::wake`] ends it.
    pub(crate) fn set_limit(
        &mut self,
        now: Instant,
        limit: RateLimit,
        packet_bytes: usize,
        control: &CongestionControl,
    ) {
        self.advance(now, control);
        self.limit = limit;
        self.max_credit = max_credit(limit, packet_bytes);
        self.credit = self.max_credit.min(self.credit);
        if self.paused_until.is_some() {
            // A pause that is over must still be ended.
            self.paused_until = self.pause(now, control).or(Some(now));
        }
    }

    /// Takes over the congestion control state and the credit of `other`, a new limiter.
    pub(crate) fn adopt_law(&mut self, now: Instant, other: Self, control: &CongestionControl) {
        self.advance(now, control);
        self.law = other.law;
        self.credit = self.credit.min(other.credit);
    }

    /// Removes the limit of congestion control. Returns whether nothing limits the sender now.
    pub(crate) fn drop_law(&mut self) -> bool {
        self.law = None;
        self.limit.rate().is_none()
    }

    /// Whether congestion control limits the sender.
    pub(crate) fn has_law(&self) -> bool {
        self.law.is_some()
    }

    /// Handles a CNP.
    pub(crate) fn on_cnp(&mut self, now: Instant, control: &CongestionControl) {
        self.advance(now, control);
        match (&mut self.law, control) {
            (Some(Sender::Dcqcn(law)), CongestionControl::Dcqcn(p)) if law.is_at_full_rate(p) => {
                *law = Dcqcn::new(now, p);
                // Credit that was earned at full rate does not count during congestion.
                self.credit = self.credit.min(0.0);
            }
            (Some(law), _) => law.on_cnp(now, control),
            (None, _) => {
                if let Some(other) = Self::after_cnp(now, control) {
                    self.adopt_law(now, other, control);
                }
            }
        }
    }

    /// Notes that the peer has acknowledged packets.
    pub(crate) fn on_acked(&mut self, now: Instant, acked: &Acked, control: &CongestionControl) {
        self.advance(now, control);
        if let Some(law) = &mut self.law {
            law.on_acked(now, acked, control);
        }
    }

    /// Notes a loss. `timeout` means that no response arrived at all.
    pub(crate) fn on_loss(&mut self, now: Instant, timeout: bool, control: &CongestionControl) {
        self.advance(now, control);
        if let Some(law) = &mut self.law {
            law.on_loss(now, timeout, control);
        }
    }

    /// The end of the present pause.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// The number of packets that may be in flight.
    pub(crate) fn congestion_window(&self) -> Option<u64> {
        self.law.as_ref()?.congestion_window()
    }

    /// The present rate in bits a second, as of the last update.
    fn rate(&self, control: &CongestionControl) -> Option<f64> {
        lower(self.law_rate(control), self.limit.rate())
    }

    /// The rate in bits a second that congestion control allows, as of the last update.
    pub(crate) fn law_rate(&self, control: &CongestionControl) -> Option<f64> {
        self.law.as_ref()?.rate(control)
    }

    /// The algorithm's state as of `now`, if there is an algorithm.
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

    /// Whether congestion control no longer needs to limit the sender, as of the last update; false
    /// if it never has.
    pub(crate) fn is_over(&self, control: &CongestionControl) -> bool {
        self.law.as_ref().is_some_and(|law| law.is_over(control))
    }

    /// Ends the pause if it is over by now.
    pub(crate) fn wake(&mut self, now: Instant, control: &CongestionControl) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.advance(now, control);
            self.paused_until = self.pause(now, control);
        }
    }

    /// The number of packets of this length that may leave now; if 0, a pause begins.
    pub(crate) fn allowed(
        &mut self,
        now: Instant,
        bytes: usize,
        control: &CongestionControl,
    ) -> usize {
        if self.paused_until.is_none() {
            self.advance(now, control);
            self.paused_until = self.pause(now, control);
        }
        if self.paused_until.is_some() {
            return 0;
        }
        if self.rate(control).is_none() {
            return usize::MAX;
        }
        // At least one: any credit is enough for one packet.
        ((self.credit / bytes as f64) as usize).max(1)
    }

    /// Notes that `bytes` bytes have left.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, control: &CongestionControl) {
        self.credit -= bytes as f64;
        if let Some(law) = &mut self.law {
            law.on_sent(bytes, control);
        }
        self.paused_until = self.pause(now, control);
    }

    /// Updates the state to `now`: runs timers, and adds credit at the rate.
    fn advance(&mut self, now: Instant, control: &CongestionControl) {
        // Everything that is due now has run already.
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
        self.credit = self.credit.min(self.max_credit);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.law.as_ref()?.next_timer()
    }

    fn earn(&mut self, to: Instant, control: &CongestionControl) {
        let time = to.saturating_duration_since(self.updated);
        match self.rate(control) {
            Some(rate) => self.credit += time.as_secs_f64() * rate / 8.0,
            None => self.credit = self.max_credit,
        }
        self.updated = self.updated.max(to);
    }

    /// The time when there is credit for a burst; `None` if there is credit now, or no limit.
    fn pause(&self, now: Instant, control: &CongestionControl) -> Option<Instant> {
        let rate = self.rate(control)?;
        if self.credit > 0.0 {
            return None;
        }
        let burst = (rate / 8.0 * PAUSE_SECONDS).min(self.max_credit);
        let bits = (burst - self.credit) * 8.0;
        let by_law = self.law.as_ref();
        let by_law = by_law.map_or(now, |law| law.when_allowed(now, bits, control));
        let by_limit = self
            .limit
            .rate()
            .map_or(now, |rate| after(now, bits / rate));
        // At `until`, each of the two rates by itself would have earned the credit for the burst.
        // If each was the lower one for part of the pause, the credit is less than that, and
        // another pause follows.
        let until = by_law.max(by_limit);
        Some(until.max(now + Duration::from_nanos(1)))
    }
}

/// The credit for the longest burst that the application allows, of packets of at most
/// `packet_bytes` bytes. As long as one byte of credit is left, one more packet may leave.
fn max_credit(limit: RateLimit, packet_bytes: usize) -> f64 {
    match limit.max_burst_bytes {
        0 => LONGEST_BURST,
        bytes => (f64::from(bytes) - packet_bytes as f64 + 1.0).clamp(1.0, LONGEST_BURST),
    }
}

/// The lower of two rates; `None` is no limit.
pub(crate) fn lower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;

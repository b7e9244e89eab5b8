//! DCQCN's reaction point: how a sender's rate follows the CNPs that it gets (Zhu et al.,
//! "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5).
//!
//! `alpha` guesses how congested the path is: it rises with CNPs and falls without. A CNP
//! cuts the current rate by `alpha / 2`. Afterwards a timer and a counter of bytes sent
//! raise it again, each of their turns halfway towards the target rate: at first the rate
//! before the cut (fast recovery), which then grows by a little (additive increase) and, once
//! timer and counter have both had many turns, by more (hyper increase).

use super::law::{Law, after};
use super::parameters::DcqcnParameters;
use crate::time::Instant;

/// Below this alpha is as good as nothing; its timer rests.
const LEAST_ALPHA: f64 = 1e-6;

/// How many increases a look ahead takes in.
const LOOK_AHEAD: u32 = 64;

/// The state of one sender. It begins with a first CNP, or with a start that is not at full
/// rate.
#[derive(Clone, Debug)]
pub(crate) struct Dcqcn {
    alpha: f64,
    /// Bits a second.
    current: f64,
    /// Bits a second.
    target: f64,
    /// Bytes sent since the byte counter's last turn.
    bytes: u64,
    byte_turns: u32,
    time_turns: u32,
    /// A CNP came since alpha's last update.
    cnp_seen: bool,
    /// When alpha is updated, unless it is 0 and stays so.
    alpha_due: Option<Instant>,
    increase_due: Instant,
    /// No cut before this.
    spared_until: Instant,
}

impl Dcqcn {
    /// A sender at full rate gets its first CNP.
    pub(crate) fn new(now: Instant, p: &DcqcnParameters) -> Self {
        let full = p.max_rate();
        let mut new = Self {
            alpha: p.initial_alpha(),
            current: full,
            target: full,
            bytes: 0,
            byte_turns: 0,
            time_turns: 0,
            cnp_seen: false,
            alpha_due: None,
            increase_due: now,
            spared_until: now,
        };
        new.on_cnp(now, p);
        if let Some(rate) = p.first_rate() {
            (new.current, new.target) = (rate, rate);
        }
        new
    }

    /// A sender begins that should not be faster than so many bits a second: others to the
    /// same peer just got CNPs, or so it was set. With `knows`, that is what the network
    /// bears; if not, it comes up to full rate as after a cut.
    pub(crate) fn starting(now: Instant, rate: f64, knows: bool, p: &DcqcnParameters) -> Self {
        let rate = rate.clamp(p.min_rate(), p.max_rate());
        Self {
            alpha: p.initial_alpha(),
            current: rate,
            target: if knows { rate } else { p.max_rate() },
            bytes: 0,
            byte_turns: 0,
            time_turns: 0,
            cnp_seen: false,
            alpha_due: Some(now + p.alpha_period()),
            increase_due: now + p.increase_period(),
            spared_until: now,
        }
    }

    /// How congested it takes the path for, from 0 to 1.
    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The rate that the next increases lead towards, in bits a second.
    pub(crate) fn target(&self) -> f64 {
        self.target
    }

    /// Whether it may send at full rate, as good as.
    pub(crate) fn is_at_full_rate(&self, p: &DcqcnParameters) -> bool {
        self.current >= p.max_rate() * (1.0 - 1.0 / 1024.0)
    }

    fn aged(&self, p: &DcqcnParameters) -> f64 {
        self.alpha * p.alpha_weight()
    }

    fn increase(&mut self, p: &DcqcnParameters) {
        let (byte, time) = (self.byte_turns, self.time_turns);
        if byte.min(time) > p.rpg_threshold {
            self.target += p.hyper_increase();
        } else if byte.max(time) >= p.rpg_threshold {
            self.target += p.additive_increase();
        }
        self.target = self.target.min(p.max_rate());
        self.current = f64::midpoint(self.current, self.target);
    }

    /// The timer's turn to increase.
    fn increase_by_time(&mut self, p: &DcqcnParameters) {
        self.time_turns = self.time_turns.saturating_add(1);
        self.increase_due = self.increase_due + p.increase_period();
        self.increase(p);
    }
}

impl Law for Dcqcn {
    type Parameters = DcqcnParameters;

    fn rate(&self, _p: &DcqcnParameters) -> Option<f64> {
        Some(self.current)
    }

    /// Whether it has come to full rate again, and no CNP came for so long that alpha has gone.
    /// Up to then it keeps to the full rate, as an adapter does whose link is no faster: a
    /// port in software may be, and a burst of a whole window at its speed would begin
    /// the same anew.
    fn is_over(&self, p: &DcqcnParameters) -> bool {
        let calm = self.alpha_due.is_none() || p.alpha_weight() >= 1.0;
        calm && self.is_at_full_rate(p)
    }

    fn on_cnp(&mut self, now: Instant, p: &DcqcnParameters) {
        self.cnp_seen = !p.alpha_with_cnp;
        if self.alpha_due.is_none() || p.alpha_with_cnp {
            self.alpha_due = Some(now + p.alpha_period());
        }
        if now < self.spared_until {
            return;
        }
        self.spared_until = now + p.rate_reduce_monitor_period;
        let by_time = p.clamp_tgt_rate_after_time_inc && self.time_turns > 0;
        if p.clamp_tgt_rate || self.byte_turns > 0 || by_time {
            self.target = self.current;
        }
        let factor = (1.0 - self.alpha * p.alpha_share()).max(p.min_factor());
        self.current = (self.current * factor).max(p.min_rate());
        if p.alpha_with_cnp {
            self.alpha = self.aged(p) + (1.0 - p.alpha_weight());
        }
        (self.bytes, self.byte_turns, self.time_turns) = (0, 0, 0);
        self.increase_due = now + p.increase_period();
    }

    fn on_sent(&mut self, bytes: u64, p: &DcqcnParameters) {
        if p.rpg_byte_reset == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= p.rpg_byte_reset {
            self.bytes -= p.rpg_byte_reset;
            self.byte_turns = self.byte_turns.saturating_add(1);
            self.increase(p);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let alpha = self.alpha_due.unwrap_or(self.increase_due);
        Some(alpha.min(self.increase_due))
    }

    fn on_timer(&mut self, at: Instant, p: &DcqcnParameters) {
        if self.alpha_due == Some(at) {
            let rise = if core::mem::take(&mut self.cnp_seen) {
                1.0 - p.alpha_weight()
            } else {
                0.0
            };
            self.alpha = self.aged(p) + rise;
            self.alpha_due = Some(at + p.alpha_period());
            if self.alpha < LEAST_ALPHA {
                self.alpha = 0.0;
                self.alpha_due = None;
            }
        }
        if self.increase_due == at {
            self.increase_by_time(p);
        }
    }

    /// Takes in the increases by the timer until then, so that a slow sender needs not be
    /// woken for each of them.
    fn when_allowed(&self, now: Instant, mut bits: f64, p: &DcqcnParameters) -> Instant {
        let soon = after(now, bits / self.current);
        if soon <= self.increase_due {
            return soon;
        }
        let (mut ahead, mut at) = (self.clone(), now);
        for _ in 0..LOOK_AHEAD {
            let allowed = after(at, bits / ahead.current);
            let due = ahead.increase_due;
            if allowed <= due || ahead.is_over(p) {
                return allowed;
            }
            bits -= due.saturating_duration_since(at).as_secs_f64() * ahead.current;
            at = at.max(due);
            ahead.increase_by_time(p);
        }
        at
    }
}

#[cfg(test)]
mod tests;

//! DCQCN's reaction point: how a sender's rate follows the CNPs that it receives (Zhu et al.,
//! "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5).
//!
//! `alpha` estimates how congested the path is: it rises with CNPs and falls without. A CNP cuts
//! the current rate by `alpha / 2`. Afterwards a timer and a counter of bytes sent raise the rate
//! again, each halfway towards the target rate. The target is at first the rate before the cut
//! (fast recovery); it then grows by a little (additive increase) and, once timer and counter have
//! both raised the rate many times, by more (hyper increase).

use super::law::{Law, after};
use super::parameters::DcqcnParameters;
use crate::time::Instant;

/// Below this, alpha counts as 0, and its timer stops.
const MIN_ALPHA: f64 = 1e-6;

/// The number of increases that a prediction considers.
const LOOK_AHEAD: u32 = 64;

/// The state of one sender. It begins with the first CNP, or when a sender starts below full rate.
#[derive(Clone, Debug)]
pub(crate) struct Dcqcn {
    alpha: f64,
    /// Bits a second.
    current: f64,
    /// Bits a second.
    target: f64,
    /// Bytes sent since the byte counter last raised the rate.
    bytes: u64,
    /// The number of increases by the byte counter since the last cut.
    byte_stage: u32,
    /// The number of increases by the timer since the last cut.
    time_stage: u32,
    /// A CNP has arrived since alpha's last update.
    cnp_seen: bool,
    /// When alpha is updated next, unless it is 0 and stays 0.
    alpha_due: Option<Instant>,
    increase_due: Instant,
    /// The next cut of the rate is at this time or later.
    no_cut_before: Instant,
}

impl Dcqcn {
    /// The state of a sender at full rate that gets its first CNP.
    pub(crate) fn new(now: Instant, p: &DcqcnParameters) -> Self {
        let full = p.max_rate();
        let mut new = Self {
            alpha: p.initial_alpha(),
            current: full,
            target: full,
            bytes: 0,
            byte_stage: 0,
            time_stage: 0,
            cnp_seen: false,
            alpha_due: None,
            increase_due: now,
            no_cut_before: now,
        };
        new.on_cnp(now, p);
        if let Some(rate) = p.first_rate() {
            (new.current, new.target) = (rate, rate);
        }
        new
    }

    /// The state of a sender that starts at `rate`, in bits a second, because others to the same
    /// peer have just got CNPs, or because of a setting. With `keep_rate`, `rate` is what the
    /// network can carry; otherwise the rate rises to full rate as after a cut.
    pub(crate) fn starting(now: Instant, rate: f64, keep_rate: bool, p: &DcqcnParameters) -> Self {
        let rate = rate.clamp(p.min_rate(), p.max_rate());
        Self {
            alpha: p.initial_alpha(),
            current: rate,
            target: if keep_rate { rate } else { p.max_rate() },
            bytes: 0,
            byte_stage: 0,
            time_stage: 0,
            cnp_seen: false,
            alpha_due: Some(now + p.alpha_period()),
            increase_due: now + p.increase_period(),
            no_cut_before: now,
        }
    }

    /// The estimated congestion of the path, from 0 to 1.
    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The target of the next increases, in bits a second.
    pub(crate) fn target(&self) -> f64 {
        self.target
    }

    /// Whether its rate is practically the full rate.
    pub(crate) fn is_at_full_rate(&self, p: &DcqcnParameters) -> bool {
        self.current >= p.max_rate() * (1.0 - 1.0 / 1024.0)
    }

    fn aged(&self, p: &DcqcnParameters) -> f64 {
        self.alpha * p.alpha_weight()
    }

    // rule: CA17-46-recovery
    fn increase(&mut self, p: &DcqcnParameters) {
        let (byte, time) = (self.byte_stage, self.time_stage);
        if byte.min(time) > p.rpg_threshold {
            self.target += p.hyper_increase();
        } else if byte.max(time) >= p.rpg_threshold {
            self.target += p.additive_increase();
        }
        self.target = self.target.min(p.max_rate());
        self.current = f64::midpoint(self.current, self.target);
    }

    /// The timer's increase.
    fn increase_by_time(&mut self, p: &DcqcnParameters) {
        self.time_stage = self.time_stage.saturating_add(1);
        self.increase_due = self.increase_due + p.increase_period();
        self.increase(p);
    }
}

impl Law for Dcqcn {
    type Parameters = DcqcnParameters;

    fn rate(&self, _p: &DcqcnParameters) -> Option<f64> {
        Some(self.current)
    }

    /// Whether the sender has returned to full rate, and alpha has decayed since the last CNP.
    /// Until then the sender never exceeds full rate, like an adapter whose link is no faster. A
    /// port in software may be faster, and a burst of a whole window at its speed would cause the
    /// same congestion again.
    fn is_over(&self, p: &DcqcnParameters) -> bool {
        let calm = self.alpha_due.is_none() || p.alpha_weight() >= 1.0;
        calm && self.is_at_full_rate(p)
    }

    fn on_cnp(&mut self, now: Instant, p: &DcqcnParameters) {
        self.cnp_seen = !p.alpha_with_cnp;
        if self.alpha_due.is_none() || p.alpha_with_cnp {
            self.alpha_due = Some(now + p.alpha_period());
        }
        if now < self.no_cut_before {
            return;
        }
        self.no_cut_before = now + p.rate_reduce_monitor_period;
        let by_time = p.clamp_tgt_rate_after_time_inc && self.time_stage > 0;
        if p.clamp_tgt_rate || self.byte_stage > 0 || by_time {
            self.target = self.current;
        }
        let factor = (1.0 - self.alpha * p.alpha_share()).max(p.min_factor());
        self.current = (self.current * factor).max(p.min_rate());
        if p.alpha_with_cnp {
            self.alpha = self.aged(p) + (1.0 - p.alpha_weight());
        }
        (self.bytes, self.byte_stage, self.time_stage) = (0, 0, 0);
        self.increase_due = now + p.increase_period();
    }

    fn on_sent(&mut self, bytes: u64, p: &DcqcnParameters) {
        if p.rpg_byte_reset == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= p.rpg_byte_reset {
            self.bytes -= p.rpg_byte_reset;
            self.byte_stage = self.byte_stage.saturating_add(1);
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
            if self.alpha < MIN_ALPHA {
                self.alpha = 0.0;
                self.alpha_due = None;
            }
        }
        if self.increase_due == at {
            self.increase_by_time(p);
        }
    }

    /// Includes the timer's increases until then, so that a slow sender need not wake up for each
    /// of them.
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

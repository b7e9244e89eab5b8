//! What DCQCN can be told, under the names that NVIDIA's adapters have for it.

use crate::time::Duration;

/// How senders answer congestion notification packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// Not at all; they are counted.
    None,
    /// By a rate that DCQCN rules.
    Dcqcn(DcqcnParameters),
}

impl Default for CongestionControl {
    /// DCQCN with the paper's parameters. Without CNPs it does nothing.
    ///
    /// Those of ConnectX adapters raise the rate after each 32 KiB, towards a full rate
    /// that adapters know from their link. Where that is only guessed, flows come back so
    /// fast that a switch which marks has to drop all the same.
    fn default() -> Self {
        Self::Dcqcn(DcqcnParameters::PAPER)
    }
}

/// The parameters of DCQCN's reaction point. Rates are in Mbit/s; fractions of 1024 are
/// what NVIDIA's tools take and show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnParameters {
    /// The weight of the old alpha at an update, in 1/1024: the paper's `1 - g`.
    pub dce_tcp_g: u16,
    /// The time between updates of alpha: the paper's timer of 55 us. Not zero.
    pub dce_tcp_rtt: Duration,
    /// Alpha at a sender's first CNP, in 1/1024.
    pub initial_alpha_value: u16,
    /// Whether a CNP updates alpha at once and starts its timer anew, as in the paper; or
    /// the timer alone does, as in adapters.
    pub alpha_with_cnp: bool,
    /// A cut takes alpha / 2^(`rpg_gd` - 10) of the rate; 10 or 11.
    pub rpg_gd: u8,
    /// What a cut leaves at least of the rate, in percent.
    pub rpg_min_dec_fac: u8,
    /// At most one cut in this time.
    pub rate_reduce_monitor_period: Duration,
    /// The rate that the first CNP sets; 0 for a cut like any other.
    pub rate_to_set_on_first_cnp: u32,
    /// Whether each cut makes the rate before it the target; if not, those alone that
    /// follow an increase do.
    pub clamp_tgt_rate: bool,
    /// Whether an increase by the timer counts for that, too.
    pub clamp_tgt_rate_after_time_inc: bool,
    /// The time between increases: the paper's T. Not zero.
    pub rpg_time_reset: Duration,
    /// The bytes between increases: the paper's B. 0 for none by bytes.
    pub rpg_byte_reset: u64,
    /// How many increases fast recovery has: the paper's F.
    pub rpg_threshold: u32,
    /// By how much additive increase raises the target: the paper's R_AI.
    pub rpg_ai_rate: u32,
    /// By how much hyper increase does.
    pub rpg_hai_rate: u32,
    /// The lowest rate.
    pub rpg_min_rate: u32,
    /// The full rate, at which a sender is not limited any more.
    pub rpg_max_rate: u32,
}

impl DcqcnParameters {
    /// As in the paper, with its testbed's links of 40 Gbit/s. It names no rates for hyper
    /// increase and for the minimum.
    pub const PAPER: Self = Self {
        dce_tcp_g: 1020,
        dce_tcp_rtt: Duration::from_micros(55),
        initial_alpha_value: 1024,
        alpha_with_cnp: true,
        rpg_gd: 11,
        rpg_min_dec_fac: 0,
        rate_reduce_monitor_period: Duration::ZERO,
        rate_to_set_on_first_cnp: 0,
        clamp_tgt_rate: true,
        clamp_tgt_rate_after_time_inc: true,
        rpg_time_reset: Duration::from_micros(55),
        rpg_byte_reset: 10_000_000,
        rpg_threshold: 5,
        rpg_ai_rate: 40,
        rpg_hai_rate: 400,
        rpg_min_rate: 40,
        rpg_max_rate: 40_000,
    };

    /// As ConnectX adapters have them by default. Those know their link's rate; here it is
    /// taken for 40 Gbit/s.
    pub const CONNECT_X: Self = Self {
        dce_tcp_g: 1019,
        dce_tcp_rtt: Duration::from_micros(1),
        initial_alpha_value: 1023,
        alpha_with_cnp: false,
        rpg_gd: 11,
        rpg_min_dec_fac: 50,
        rate_reduce_monitor_period: Duration::from_micros(4),
        rate_to_set_on_first_cnp: 0,
        clamp_tgt_rate: false,
        clamp_tgt_rate_after_time_inc: true,
        rpg_time_reset: Duration::from_micros(300),
        rpg_byte_reset: 32_767,
        rpg_threshold: 1,
        rpg_ai_rate: 5,
        rpg_hai_rate: 50,
        rpg_min_rate: 1,
        rpg_max_rate: 40_000,
    };

    pub(super) fn alpha_weight(&self) -> f64 {
        f64::from(self.dce_tcp_g.min(1024)) / 1024.0
    }

    pub(super) fn initial_alpha(&self) -> f64 {
        f64::from(self.initial_alpha_value.min(1024)) / 1024.0
    }

    /// What part of alpha a cut takes.
    pub(super) fn alpha_share(&self) -> f64 {
        if self.rpg_gd <= 10 { 1.0 } else { 0.5 }
    }

    pub(super) fn min_factor(&self) -> f64 {
        f64::from(self.rpg_min_dec_fac.min(100)) / 100.0
    }

    pub(super) fn first_rate(&self) -> Option<f64> {
        let rate = mbps(self.rate_to_set_on_first_cnp);
        (rate > 0.0).then(|| rate.clamp(self.min_rate(), self.max_rate()))
    }

    pub(super) fn additive_increase(&self) -> f64 {
        mbps(self.rpg_ai_rate)
    }

    pub(super) fn hyper_increase(&self) -> f64 {
        mbps(self.rpg_hai_rate)
    }

    /// Never nothing: no CNP stops a sender.
    pub(super) fn min_rate(&self) -> f64 {
        mbps(self.rpg_min_rate.max(1))
    }

    pub(super) fn max_rate(&self) -> f64 {
        mbps(self.rpg_max_rate).max(self.min_rate())
    }
}

/// In bits a second.
fn mbps(rate: u32) -> f64 {
    f64::from(rate) * 1e6
}

//! The parameters of the algorithms. Those of DCQCN have the names of NVIDIA's adapters.

use crate::time::Duration;

/// The minimum period of a timer.
const MIN_PERIOD: Duration = Duration::from_micros(1);

/// How senders avoid filling the queues of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CongestionControl {
    /// No congestion control. Congestion notification packets are only counted.
    None,
    /// A rate that follows congestion notification packets, as in DCQCN.
    Dcqcn(DcqcnParameters),
    /// A window that follows round trips, as in Swift, for networks that don't mark. It limits
    /// requests of RC and XRC, and responses to their READs; UC, which has no acknowledgements, is
    /// not limited. Congestion notification packets are only counted.
    Delay(DelayParameters),
}

impl CongestionControl {
    /// Its name: `dcqcn`, `delay` or `none`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dcqcn(_) => "dcqcn",
            Self::Delay(_) => "delay",
        }
    }
}

impl Default for CongestionControl {
    /// DCQCN with the paper's parameters. Without CNPs it does nothing.
    ///
    /// The parameters of ConnectX adapters raise the rate after each 32 KiB, towards a full rate
    /// that adapters know from their link. Where the full rate is only an estimate, flows recover
    /// so fast that a marking switch still has to drop packets.
    fn default() -> Self {
        Self::Dcqcn(DcqcnParameters::PAPER)
    }
}

/// The parameters of DCQCN's reaction point. Rates are in Mbit/s. Fractions of 1024 are those that
/// NVIDIA's tools take and show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnParameters {
    /// The weight of the old alpha at an update, in 1/1024: the paper's `1 - g`.
    pub dce_tcp_g: u16,
    /// The time between updates of alpha: the paper's timer of 55 us. At least 1 us.
    pub dce_tcp_rtt: Duration,
    /// Alpha at a sender's first CNP, in 1/1024.
    pub initial_alpha_value: u16,
    /// Whether a CNP updates alpha at once and restarts its timer, as in the paper; otherwise only
    /// the timer updates it, as in adapters.
    pub alpha_with_cnp: bool,
    /// A cut reduces the rate by the fraction alpha / 2^(`rpg_gd` - 10). The value is 10 or 11.
    pub rpg_gd: u8,
    /// The minimum rate after a cut, in percent of the rate before it.
    pub rpg_min_dec_fac: u8,
    /// The minimum time between cuts.
    pub rate_reduce_monitor_period: Duration,
    /// The rate after the first CNP; 0 for a cut like any other.
    pub rate_to_set_on_first_cnp: u32,
    /// Whether each cut makes the rate before it the target; otherwise only a cut that follows an
    /// increase does.
    pub clamp_tgt_rate: bool,
    /// Whether an increase by the timer counts as an increase for `clamp_tgt_rate`.
    pub clamp_tgt_rate_after_time_inc: bool,
    /// The time between increases: the paper's T. At least 1 us.
    pub rpg_time_reset: Duration,
    /// The bytes between increases: the paper's B. 0 for none by bytes.
    pub rpg_byte_reset: u64,
    /// The number of increases of fast recovery: the paper's F.
    pub rpg_threshold: u32,
    /// The increment of the target by additive increase: the paper's R_AI.
    pub rpg_ai_rate: u32,
    /// The increment of the target by hyper increase.
    pub rpg_hai_rate: u32,
    /// The minimum rate.
    pub rpg_min_rate: u32,
    /// The full rate, which a limited sender never exceeds. Congestion control stops limiting a
    /// sender that has been at full rate until alpha has decayed.
    pub rpg_max_rate: u32,
    /// The rate at which a QP starts; 0 means no limit. From there, the rate rises to full rate as
    /// after a cut. With `rpg_max_rate`, a QP starts like an adapter whose link has that rate. In
    /// any case, a QP starts no faster than another QP to the same peer that got a CNP within the
    /// last 10 ms. (Neither the paper nor NVIDIA has this parameter.)
    pub start_rate: u32,
}

impl DcqcnParameters {
    /// The parameters of the paper, for its testbed's links of 40 Gbit/s. The paper gives no values
    /// for the hyper increase and the minimum rate.
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
        start_rate: 0,
    };

    /// The default parameters of ConnectX adapters. Those know their link's rate; here it is
    /// assumed to be 40 Gbit/s.
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
        start_rate: 0,
    };

    /// [`PAPER`](Self::PAPER) for a link of `rate` Mbit/s instead of 40 Gbit/s: its rates in the same
    /// proportion to the link's rate, but at least 1 Mbit/s, and times that are longer by as much as
    /// the link is slower. So senders react after as many packets. A QP starts at the link's rate, as
    /// an adapter's does.
    pub fn paper_for_link(rate: u32) -> Self {
        let part = |of_paper: u32| {
            let part = u64::from(of_paper) * u64::from(rate) / u64::from(Self::PAPER.rpg_max_rate);
            u32::try_from(part.max(1)).unwrap_or(u32::MAX)
        };
        let paper = Self::PAPER;
        Self {
            dce_tcp_rtt: for_link(paper.dce_tcp_rtt, rate),
            rpg_time_reset: for_link(paper.rpg_time_reset, rate),
            rpg_ai_rate: part(paper.rpg_ai_rate),
            rpg_hai_rate: part(paper.rpg_hai_rate),
            rpg_min_rate: part(paper.rpg_min_rate),
            ..paper
        }
        .with_link(rate)
    }

    /// [`CONNECT_X`](Self::CONNECT_X) for a link of `rate` Mbit/s: its full rate, at which a QP
    /// starts. Adapters have the other values at any link.
    pub fn connect_x_for_link(rate: u32) -> Self {
        Self::CONNECT_X.with_link(rate)
    }

    fn with_link(self, rate: u32) -> Self {
        Self {
            rpg_max_rate: rate,
            start_rate: rate,
            ..self
        }
    }

    pub(super) fn alpha_weight(&self) -> f64 {
        f64::from(self.dce_tcp_g.min(1024)) / 1024.0
    }

    pub(super) fn initial_alpha(&self) -> f64 {
        f64::from(self.initial_alpha_value.min(1024)) / 1024.0
    }

    /// The fraction of alpha by which a cut reduces the rate.
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

    pub(super) fn start(&self) -> Option<f64> {
        (self.start_rate > 0).then(|| mbps(self.start_rate))
    }

    /// At least [`MIN_PERIOD`]: a timer with period 0 would run for ever.
    pub(super) fn alpha_period(&self) -> Duration {
        self.dce_tcp_rtt.max(MIN_PERIOD)
    }

    pub(super) fn increase_period(&self) -> Duration {
        self.rpg_time_reset.max(MIN_PERIOD)
    }

    pub(super) fn additive_increase(&self) -> f64 {
        mbps(self.rpg_ai_rate)
    }

    pub(super) fn hyper_increase(&self) -> f64 {
        mbps(self.rpg_hai_rate)
    }

    /// Never 0, so that CNPs slow a sender down but never stop it.
    pub(super) fn min_rate(&self) -> f64 {
        mbps(self.rpg_min_rate.max(1))
    }

    pub(super) fn max_rate(&self) -> f64 {
        mbps(self.rpg_max_rate).max(self.min_rate())
    }
}

/// A time of the paper's parameters, for a link of `rate` Mbit/s.
pub(super) fn for_link(of_paper: Duration, rate: u32) -> Duration {
    let slower = f64::from(DcqcnParameters::PAPER.rpg_max_rate) / f64::from(rate.max(1));
    of_paper.mul_f64(slower).max(MIN_PERIOD)
}

/// In bits a second.
fn mbps(rate: u32) -> f64 {
    f64::from(rate) * 1e6
}

/// The parameters of [`CongestionControl::Delay`], under the names of the paper on Swift
/// (Kumar et al., SIGCOMM 2020) where it has one. Windows are in packets of the path MTU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayParameters {
    /// The target round trip of a flow with a large window; zero for the shortest that the
    /// connection has measured, plus `queue_target`.
    pub base_target: Duration,
    /// The target's distance from the shortest round trip, if `base_target` is zero.
    pub queue_target: Duration,
    /// The maximum number of round trips between two rests. In a rest, a sender keeps few packets
    /// in flight for two round trips, to measure the shortest round trip without its own queue. It
    /// does not rest if `base_target` is set.
    pub rest_interval: u32,
    /// A shortest round trip older than this is forgotten, at the latest when it is twice as old.
    pub base_memory: Duration,
    /// The additional target of the smallest flows: fs_range.
    pub fs_range: Duration,
    /// The window at and below which all of `fs_range` is added: fs_min_cwnd.
    pub fs_min_window: f64,
    /// The window at and above which nothing is added: fs_max_cwnd.
    pub fs_max_window: f64,
    /// The packets by which a window grows in a round trip: ai.
    pub additive_increase: f64,
    /// Beta: a cut takes the fraction beta * (round trip - target) / round trip of the window.
    pub beta: f64,
    /// The maximum fraction of the window that a cut takes: max_mdf.
    pub max_decrease: f64,
    /// The minimum window: min_cwnd.
    pub min_window: f64,
    /// The maximum window: max_cwnd.
    pub max_window: f64,
    /// The initial window, which doubles until a round trip is too long.
    pub initial_window: u32,
    /// The number of timeouts in a row that set the window to its minimum: RETX_RESET_THRESHOLD.
    pub timeouts_to_reset: u32,
    /// The minimum rate of a window of less than a packet, in Mbit/s.
    pub min_rate: u32,
}

impl DelayParameters {
    /// Values of this stack: the paper explains the parameters, and leaves their values to the
    /// network. A queue of 30 us at 10 Gbit/s is 37 KB. Scaling ends at a window of 1 MB at path
    /// MTU 1024, enough for a flow of 40 Gbit/s. If it ended at a smaller window, shortest round
    /// trips that differ by a microsecond or two would give large flows unequal shares. The initial
    /// window is that of TCP (RFC 6928).
    pub const DEFAULT: Self = Self {
        base_target: Duration::ZERO,
        queue_target: Duration::from_micros(30),
        rest_interval: 256,
        base_memory: Duration::from_secs(5),
        fs_range: Duration::from_micros(100),
        fs_min_window: 0.1,
        fs_max_window: 1000.0,
        additive_increase: 1.0,
        beta: 0.8,
        max_decrease: 0.5,
        min_window: 0.01,
        max_window: 4096.0,
        initial_window: 10,
        timeouts_to_reset: 3,
        min_rate: 1,
    };

    /// The additional target of a flow with this window, so that many small flows find room in the
    /// queue and converge to equal shares: `fs_range` at most, falling with the square root of the
    /// window.
    pub(super) fn flow_scaling(&self, window: f64) -> Duration {
        let root = |window: f64| 1.0 / window.max(1e-3).sqrt();
        let (most, least) = (root(self.fs_min_window), root(self.fs_max_window));
        let span = (most - least).max(1e-9);
        let part = ((root(window) - least) / span).clamp(0.0, 1.0);
        self.fs_range.mul_f64(part)
    }

    pub(super) fn clamp(&self, window: f64) -> f64 {
        let least = self.min_window.max(1e-3);
        window.clamp(least, self.max_window.max(1.0).max(least))
    }

    /// Never 0, so that delay slows a sender down but never stops it.
    pub(super) fn min_rate(&self) -> f64 {
        mbps(self.min_rate.max(1))
    }
}

impl Default for DelayParameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

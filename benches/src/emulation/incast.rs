//! The incast that both networks run, and its figures.

use crate::median;
use roce_sim::congestion::percentile;

/// The hosts that send; one more receives.
pub(super) const SENDERS: usize = 8;

/// The interval between points of a curve, in milliseconds, as in a report of `roce fabric`.
pub(super) const INTERVAL_MS: u64 = 100;

/// The MTU of hosts' interfaces. The path MTU is 1024.
pub(super) const MTU: usize = 1500;

/// Bytes of payload of a packet, and of its Ethernet frame.
pub(super) const PAYLOAD_OF_FRAME: (f64, f64) = (1024.0, 1024.0 + 16.0 + 42.0);

/// The queue of each port.
pub(super) const QUEUE: &str = "256K";
/// The switch's marking: KMIN, KMAX and PMAX.
pub(super) const ECN: [&str; 3] = ["20K", "80K", "10%"];

/// Eight hosts send to one, on links of the same rate.
///
/// The parameters of DCQCN are for such rates: its periods are the paper's for 40 Gbit/s times some
/// 400, the time between CNPs included, and its steps are less than the paper's. A millisecond more
/// or less of delay in a host then changes little.
#[derive(Clone, Copy, Debug)]
pub struct Incast {
    /// The rate of each link, in Mbit/s.
    pub megabits_per_sec: u32,
    /// The delay of each link, in microseconds.
    pub delay_us: u32,
    /// The length of a run. Figures are from its second half.
    pub seconds: u32,
}

impl Incast {
    /// The period of DCQCN's timers, in microseconds.
    pub const PERIOD_US: u32 = 20_000;

    /// The least time between CNPs, in microseconds.
    pub const CNP_US: u32 = 18_000;

    /// The additive increase, the hyper increase, and the least rate, in Mbit/s.
    pub const STEPS: [u32; 3] = [1, 5, 1];
}

/// The figures of one run, from the second half of its time.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Payload of each flow, in Mbit/s.
    pub goodput: Vec<f64>,
    /// Packets marked per second.
    pub marked: f64,
    /// CNPs per second.
    pub cnps: f64,
    /// Packets dropped per second.
    pub dropped: f64,
    /// The mean of the queue in each interval, in bytes.
    pub queue_means: Vec<f64>,
    /// The longest queue in each interval, in bytes.
    pub queue_peaks: Vec<f64>,
}

impl Figures {
    /// The sum of all flows.
    pub fn total(&self) -> f64 {
        self.goodput.iter().sum()
    }

    /// The flow in this place from the slowest, from 0.
    pub fn flow(&self, place: usize) -> f64 {
        let mut sorted = self.goodput.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    /// The mean queue.
    pub fn queue_mean(&self) -> f64 {
        self.queue_means.iter().sum::<f64>() / self.queue_means.len() as f64
    }

    /// The median of the intervals' means.
    pub fn queue_usual(&self) -> f64 {
        median(&self.queue_means).unwrap_or(f64::NAN)
    }

    /// The 99th percentile of the intervals' means.
    pub fn queue_high(&self) -> f64 {
        percentile(&mut self.queue_means.clone(), 99.0).unwrap_or(f64::NAN)
    }

    /// The median of the intervals' longest queues.
    pub fn queue_peak(&self) -> f64 {
        median(&self.queue_peaks).unwrap_or(f64::NAN)
    }
}

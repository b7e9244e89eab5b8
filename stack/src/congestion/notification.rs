//! The notification point: the receiver of ECN-marked packets informs their sender.

use super::parameters;
use crate::time::{Duration, Instant};
use roce_wire::PKey;

/// How receivers respond to packets with the ECN mark "congestion experienced" (RoCEv2 Annex
/// A17.9.3). Fields have the names of NVIDIA's adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationPoint {
    /// The DSCP of CNPs, 0 to 63: a class that switches send before data. Only the lower six bits
    /// of a larger value count.
    pub cnp_dscp: u8,
    /// The minimum time between CNPs of a QP.
    pub min_time_between_cnps: Duration,
}

impl Default for NotificationPoint {
    /// DSCP 48, 50 microseconds.
    fn default() -> Self {
        Self {
            cnp_dscp: 48,
            min_time_between_cnps: Duration::from_micros(50),
        }
    }
}

impl NotificationPoint {
    /// The default for a link of `rate` Mbit/s instead of 40 Gbit/s: the time between CNPs is longer
    /// by as much as the link is slower. For senders with
    /// [`DcqcnParameters::paper_for_link`](super::DcqcnParameters::paper_for_link).
    pub fn for_link(rate: u32) -> Self {
        let default = Self::default();
        Self {
            min_time_between_cnps: parameters::for_link(default.min_time_between_cnps, rate),
            ..default
        }
    }

    /// The traffic class of CNPs. They are not ECN-capable: a mark on a CNP would cause no CNP.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.cnp_dscp << 2
    }
}

/// Decides when a QP sends a CNP.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// The earliest time of the next CNP.
    quiet_until: Instant,
    /// The partition key of the marked packet that a CNP must be sent for.
    pending: Option<PKey>,
}

impl Notifier {
    /// Notes a marked packet with this partition key. Returns whether a CNP must be sent for it; if not, another one that
    /// was sent or will be sent covers it.
    pub(crate) fn on_marked(&mut self, now: Instant, pkey: PKey) -> bool {
        if self.pending.is_some() || now < self.quiet_until {
            return false;
        }
        self.pending = Some(pkey);
        true
    }

    /// The partition key of the CNP to send, if there is one.
    pub(crate) fn pending(&self) -> Option<PKey> {
        self.pending
    }

    /// Notes that the CNP has left.
    pub(crate) fn on_sent(&mut self, now: Instant, point: &NotificationPoint) {
        self.pending = None;
        self.quiet_until = now + point.min_time_between_cnps;
    }

    /// Drops the CNP that was to be sent.
    pub(crate) fn forget(&mut self) {
        self.pending = None;
    }
}

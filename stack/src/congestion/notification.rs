//! The notification point: who receives marked packets tells their sender.

use crate::time::{Duration, Instant};

/// What receivers do about packets with the mark "congestion experienced" (RoCEv2 Annex
/// A17.9.2), under the names that NVIDIA's adapters have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationPoint {
    /// The DSCP of CNPs, 0 to 63: a class that switches send before data. Of larger
    /// values the lower six bits count.
    pub cnp_dscp: u8,
    /// A QP sends at most one CNP in this time.
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
    /// The traffic class of CNPs. They are not ECN-capable: nobody would answer a mark.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.cnp_dscp << 2
    }
}

/// When a QP may send a CNP, and whether it has to.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// Before this it sends none.
    quiet_until: Instant,
    owed: bool,
}

impl Notifier {
    /// A marked packet has come. Returns whether a CNP is owed for it; if not, one that
    /// was sent or will be sent says the same.
    pub(crate) fn on_marked(&mut self, now: Instant) -> bool {
        if self.owed || now < self.quiet_until {
            return false;
        }
        self.owed = true;
        true
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// What was owed has left.
    pub(crate) fn on_sent(&mut self, now: Instant, point: &NotificationPoint) {
        self.owed = false;
        self.quiet_until = now + point.min_time_between_cnps;
    }

    /// What is owed will never be sent.
    pub(crate) fn forget(&mut self) {
        self.owed = false;
    }
}

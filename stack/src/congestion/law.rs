//! The interface of a congestion control algorithm: it is informed about a sender's packets, and
//! returns a rate, a window, or both.

use crate::time::{Duration, Instant};

/// What an acknowledgement tells a congestion control algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// The number of newly acknowledged packets.
    pub(crate) packets: u64,
    /// The number of packets in flight before it arrived.
    pub(crate) in_flight: u64,
    /// The round trip, if it was measured.
    pub(crate) round_trip: Option<Duration>,
}

/// The state of one sender under a congestion control algorithm. The parameters belong to the
/// device. Before each call, the caller must run all timers that are due.
pub(crate) trait Law {
    type Parameters;

    /// Notes that `bytes` were sent, headers included, from the Ethernet header to the frame check
    /// sequence.
    fn on_sent(&mut self, _bytes: u64, _p: &Self::Parameters) {}

    /// Notes that the peer has acknowledged packets.
    fn on_acked(&mut self, _now: Instant, _acked: &Acked, _p: &Self::Parameters) {}

    /// Notes that a congestion notification packet has arrived.
    fn on_cnp(&mut self, _now: Instant, _p: &Self::Parameters) {}

    /// Notes that packets were lost. `timeout` means that no response arrived at all.
    fn on_loss(&mut self, _now: Instant, _timeout: bool, _p: &Self::Parameters) {}

    /// The next time to call [`Law::on_timer`].
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Runs the timer that is due at `at`, as returned by [`Law::next_timer`].
    fn on_timer(&mut self, _at: Instant, _p: &Self::Parameters) {}

    /// The rate at which the sender may send, in bits a second; `None` for no limit.
    fn rate(&self, p: &Self::Parameters) -> Option<f64>;

    /// The number of packets that may be in flight; `None` for no limit.
    fn congestion_window(&self) -> Option<u64> {
        None
    }

    /// The time at which the sender may have sent `bits` more bits, if no other call changes its
    /// state after `now`. The result may be early, but is never late.
    fn when_allowed(&self, now: Instant, bits: f64, p: &Self::Parameters) -> Instant {
        self.rate(p).map_or(now, |rate| after(now, bits / rate))
    }

    /// Whether the algorithm no longer limits the sender: its state can then be dropped until the
    /// next CNP.
    fn is_over(&self, _p: &Self::Parameters) -> bool {
        false
    }
}

/// `seconds` after `now`, plus a nanosecond, so that rounding never makes it too early.
pub(super) fn after(now: Instant, seconds: f64) -> Instant {
    now + Duration::from_secs_f64(seconds.clamp(0.0, 1e6)) + Duration::from_nanos(1)
}

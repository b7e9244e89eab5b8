//! What an algorithm of congestion control is: it hears what becomes of a sender's packets,
//! and answers with a rate, a window, or both.

use crate::time::{Duration, Instant};

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// So many packets more have arrived.
    pub(crate) packets: u64,
    /// So many were in flight before it came.
    pub(crate) in_flight: u64,
    /// What a round trip takes, if this tells.
    pub(crate) round_trip: Option<Duration>,
}

/// An algorithm, as the state of one sender. Its parameters are the device's. Before each
/// event, all timers that are due must have had their turn.
pub(crate) trait Law {
    type Parameters;

    /// So many bytes have been sent, with all that they take of a link.
    fn on_sent(&mut self, _bytes: u64, _p: &Self::Parameters) {}

    /// The peer has acknowledged something.
    fn on_acked(&mut self, _now: Instant, _acked: &Acked, _p: &Self::Parameters) {}

    /// A congestion notification packet has come.
    fn on_cnp(&mut self, _now: Instant, _p: &Self::Parameters) {}

    /// Packets were lost; `timeout` if nothing at all has come back.
    fn on_loss(&mut self, _now: Instant, _timeout: bool, _p: &Self::Parameters) {}

    /// When [`Law::on_timer`] should be called next.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Does what is due at `at`, which [`Law::next_timer`] gave.
    fn on_timer(&mut self, _at: Instant, _p: &Self::Parameters) {}

    /// The rate at which it may send, in bits a second; `None` for any.
    fn rate(&self, p: &Self::Parameters) -> Option<f64>;

    /// How many packets may be in flight; `None` for any number.
    fn window(&self) -> Option<u64> {
        None
    }

    /// When it will have been allowed so many bits, if it sends nothing and hears nothing
    /// from `now` on. It may be earlier than that.
    fn when_allowed(&self, now: Instant, bits: f64, p: &Self::Parameters) -> Instant {
        self.rate(p).map_or(now, |rate| after(now, bits / rate))
    }

    /// Whether it has no say any more: until the next event that it should hear of, it
    /// can be forgotten.
    fn is_over(&self, _p: &Self::Parameters) -> bool {
        false
    }
}

/// `seconds` after `now`, and a nanosecond more, so that rounding leaves nothing missing.
pub(super) fn after(now: Instant, seconds: f64) -> Instant {
    now + Duration::from_secs_f64(seconds.clamp(0.0, 1e6)) + Duration::from_nanos(1)
}

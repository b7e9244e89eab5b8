//! The state of one sender, for any algorithm.

use super::CongestionControl;
use super::dcqcn::Dcqcn;
use super::delay::Delay;
use super::law::{Acked, Law};
use crate::time::Instant;

/// The state of one sender, for any algorithm.
#[derive(Clone, Debug)]
pub(crate) enum Sender {
    Dcqcn(Dcqcn),
    Delay(Delay),
}

/// Calls the algorithm with its parameters. When a device's algorithm changes, the state of all its
/// senders is dropped, so the sender and the parameters always belong to the same algorithm. If
/// they did not, the call would do nothing.
macro_rules! call {
    ($sender:expr, $control:expr, |$law:ident, $p:ident| $call:expr, $otherwise:expr) => {
        match ($sender, $control) {
            (Sender::Dcqcn($law), CongestionControl::Dcqcn($p)) => $call,
            (Sender::Delay($law), CongestionControl::Delay($p)) => $call,
            _ => $otherwise,
        }
    };
}

impl Law for Sender {
    type Parameters = CongestionControl;

    fn on_sent(&mut self, bytes: u64, control: &CongestionControl) {
        call!(self, control, |law, p| law.on_sent(bytes, p), ());
    }

    fn on_acked(&mut self, now: Instant, acked: &Acked, control: &CongestionControl) {
        call!(self, control, |law, p| law.on_acked(now, acked, p), ());
    }

    fn on_cnp(&mut self, now: Instant, control: &CongestionControl) {
        call!(self, control, |law, p| law.on_cnp(now, p), ());
    }

    fn on_loss(&mut self, now: Instant, timeout: bool, control: &CongestionControl) {
        call!(self, control, |law, p| law.on_loss(now, timeout, p), ());
    }

    fn next_timer(&self) -> Option<Instant> {
        match self {
            Self::Dcqcn(law) => law.next_timer(),
            Self::Delay(law) => law.next_timer(),
        }
    }

    fn on_timer(&mut self, at: Instant, control: &CongestionControl) {
        call!(self, control, |law, p| law.on_timer(at, p), ());
    }

    fn rate(&self, control: &CongestionControl) -> Option<f64> {
        call!(self, control, |law, p| law.rate(p), None)
    }

    fn congestion_window(&self) -> Option<u64> {
        match self {
            Self::Dcqcn(law) => law.congestion_window(),
            Self::Delay(law) => law.congestion_window(),
        }
    }

    fn when_allowed(&self, now: Instant, bits: f64, control: &CongestionControl) -> Instant {
        call!(self, control, |law, p| law.when_allowed(now, bits, p), now)
    }

    fn is_over(&self, control: &CongestionControl) -> bool {
        call!(self, control, |law, p| law.is_over(p), true)
    }
}

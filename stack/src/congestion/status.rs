//! The congestion status of a QP, for monitoring.

use super::CongestionControl;
use super::law::Law;
use super::sender::Sender;
use crate::time::Duration;

/// A QP's rate, and the reasons for it: [`Nic::qp_congestion`](crate::Nic::qp_congestion).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QpCongestion {
    /// The QP's rate in bits a second, in which a packet counts from the Ethernet header to the
    /// frame check sequence; `None` while the rate is not limited. It is the lower of the rates
    /// that congestion control and the QP's [`RateLimit`](crate::RateLimit) allow.
    pub rate: Option<f64>,
    /// The target rate of increases, in bits a second. (DCQCN, while it is limited.)
    pub target: Option<f64>,
    /// The estimated congestion of its path, from 0 to 1. (DCQCN, while it is limited.)
    pub alpha: Option<f64>,
    /// The bytes that the algorithm allows in flight. (Delay.) The QP's own window, which shrinks
    /// after losses, may be smaller.
    pub window_bytes: Option<u64>,
    /// The target round trip. (Delay.)
    pub target_rtt: Option<Duration>,
    /// The smoothed round trip, in which each new one has a weight of an eighth; only for RC and
    /// XRC, once one was measured. It includes the time that the peer takes to answer.
    pub smoothed_rtt: Option<Duration>,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
    /// Packets received with the mark "congestion experienced".
    pub ecn_marked: u64,
    /// Congestion notification packets sent for marked packets.
    pub cnps_sent: u64,
    /// Marked packets for which no CNP was sent, because one had just been sent.
    pub cnps_suppressed: u64,
    /// Congestion notification packets received from the peer.
    pub cnps_received: u64,
}

impl QpCongestion {
    /// Fills in the state of an algorithm, for a sender with packets of this length.
    pub(crate) fn fill_from(&mut self, law: &Sender, control: &CongestionControl, mtu: usize) {
        if law.is_over(control) {
            return;
        }
        self.rate = law.rate(control);
        self.window_bytes = law.congestion_window().map(|packets| packets * mtu as u64);
        match (law, control) {
            (Sender::Dcqcn(law), _) => {
                self.target = Some(law.target());
                self.alpha = Some(law.alpha());
            }
            (Sender::Delay(law), CongestionControl::Delay(p)) => {
                self.target_rtt = law.has_measured().then(|| law.target(p));
            }
            (Sender::Delay(_), _) => {}
        }
    }
}

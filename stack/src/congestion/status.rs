//! What congestion control has made of a QP, for who watches it.

use super::CongestionControl;
use super::law::Law;
use super::sender::Sender;
use crate::time::Duration;

/// A QP's rate and what led to it: [`Nic::qp_congestion`](crate::Nic::qp_congestion).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QpCongestion {
    /// The rate that it keeps to, in bits a second, with all that a packet takes of an
    /// Ethernet but its preamble; `None` while it is not limited. The lower one of what
    /// congestion control and its [`RateLimit`](crate::RateLimit) allow it.
    pub rate: Option<f64>,
    /// The rate that increases lead towards, in bits a second. (DCQCN, while it is limited.)
    pub target: Option<f64>,
    /// How congested it takes its path for, from 0 to 1. (DCQCN, while it is limited.)
    pub alpha: Option<f64>,
    /// Bytes that it may have in flight by the algorithm. (Delay.) Its own window, which
    /// losses close, may be smaller.
    pub window_bytes: Option<u64>,
    /// The round trip that it aims at. (Delay.)
    pub target_rtt: Option<Duration>,
    /// The usual round trip, each new one weighed with an eighth; of RC and XRC, once one
    /// was measured. What a peer takes to answer is part of it.
    pub smoothed_rtt: Option<Duration>,
    /// The shortest.
    pub min_rtt: Option<Duration>,
    /// Packets that came with the mark "congestion experienced".
    pub ecn_marked: u64,
    /// Congestion notification packets sent for those.
    pub cnps_sent: u64,
    /// Marked packets for which none was sent, since one had just been.
    pub cnps_suppressed: u64,
    /// Congestion notification packets that came from the peer.
    pub cnps_received: u64,
}

impl QpCongestion {
    /// Takes in what an algorithm says of a sender of packets of so many bytes.
    pub(crate) fn tell(&mut self, law: &Sender, control: &CongestionControl, mtu: usize) {
        if law.is_over(control) {
            return;
        }
        self.rate = law.rate(control);
        self.window_bytes = law.window().map(|packets| packets * mtu as u64);
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

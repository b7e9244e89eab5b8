//! The send window of a requester: how much it keeps in flight.
//!
//! The specification gives RC no window: a receiver can hold back a sender only with credits, which
//! count messages, and by loss. The socket buffer of a software receiver fills up after a few large
//! bursts. So the window stays below the size of such a buffer. It shrinks by a quarter for a loss,
//! and grows again with acknowledgements, as in TCP. The floor keeps a lossy but otherwise idle
//! network usable.

/// The window of one QP, in packets of the path MTU.
#[derive(Debug, Clone)]
pub(crate) struct SendWindow {
    packets: u64,
    /// Below this, the window doubles each round trip; above, it grows by one.
    threshold: u64,
    /// Acknowledged packets not yet turned into growth.
    acked: u64,
    floor: u64,
    limit: u64,
    /// Of the last window's worth of packets: those acknowledged, and those retransmitted.
    recent: (u64, u64),
    /// The window before a timeout.
    before_timeout: Option<u64>,
    /// The limit of congestion control.
    congestion_limit: u64,
    /// A packet was lost since the last [`SendWindow::take_lost`].
    lost: bool,
}

/// The floor in bytes: half of the largest segmentation batch.
const FLOOR_BYTES: usize = 32 << 10;

/// The maximum window in bytes. On any network that sockets can fill, a larger window does not
/// help.
// rule: 9.7.1-half-outstanding
const MAX_BYTES: usize = 1 << 20;

impl SendWindow {
    /// A window of at most `max_bytes`, for packets of `mtu` bytes.
    pub(crate) fn new(max_bytes: usize, mtu: usize) -> Self {
        let packets = |bytes: usize| (bytes / mtu).max(2) as u64;
        let limit = packets(max_bytes.min(MAX_BYTES));
        let floor = packets(FLOOR_BYTES).min(limit);
        Self {
            packets: limit,
            threshold: limit,
            acked: 0,
            floor,
            limit,
            recent: (0, 0),
            before_timeout: None,
            congestion_limit: u64::MAX,
            lost: false,
        }
    }

    /// Limits the window to `packets`, for congestion control; no limit if `None`.
    pub(crate) fn set_congestion_limit(&mut self, packets: Option<u64>) {
        self.congestion_limit = packets.unwrap_or(u64::MAX);
    }

    /// Whether a packet was lost since the last call.
    pub(crate) fn take_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }

    /// The number of packets that may be in flight.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.min(self.congestion_limit)
    }

    /// Grows with the acknowledgement of `packets` packets.
    pub(crate) fn on_ack(&mut self, packets: u64) {
        self.before_timeout = None;
        self.recent.0 += packets;
        if self.recent.0 >= self.packets {
            self.recent = (0, 0);
        }
        if self.packets >= self.limit {
            return;
        }
        self.acked += packets;
        if self.packets < self.threshold {
            self.packets += self.acked;
            self.acked = 0;
        } else if self.acked >= self.packets {
            self.packets += 1;
            self.acked = 0;
        }
        self.packets = self.packets.min(self.limit);
    }

    /// Shrinks because a packet was lost, according to a NAK or a missing response.
    pub(crate) fn on_loss(&mut self) {
        self.lost = true;
        self.packets = (self.packets * 3 / 4).max(self.floor);
        self.threshold = self.packets;
        self.acked = 0;
    }

    /// Notes the loss of a packet that was sent to a peer that keeps out-of-order packets. Only
    /// this packet is retransmitted, not everything after it. So the window shrinks only if more
    /// than an eighth of it plus eight packets are lost, as when a buffer overflows.
    pub(crate) fn on_selective_loss(&mut self) {
        self.lost = true;
        self.recent.1 += 1;
        if self.recent.1 > self.packets / 8 + 8 {
            self.recent = (0, 0);
            self.on_loss();
        }
    }

    /// Undoes the last timeout, which was spurious: everything had arrived.
    pub(crate) fn undo_timeout(&mut self) {
        if let Some(packets) = self.before_timeout.take() {
            self.packets = packets;
            self.threshold = packets;
        }
    }

    /// Shrinks because no acknowledgement arrived for a whole local ACK timeout.
    pub(crate) fn on_timeout(&mut self) {
        self.before_timeout = self.before_timeout.or(Some(self.packets));
        self.threshold = (self.packets / 2).max(self.floor);
        self.packets = self.floor;
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_open_shrinks_and_grows_back() {
        let mut window = SendWindow::new(256 << 10, 1024);
        assert_eq!(window.packets(), 256);
        window.on_loss();
        assert_eq!(window.packets(), 192);
        for _ in 0..128 {
            let packets = window.packets();
            window.on_ack(packets);
        }
        assert_eq!(window.packets(), 256);
    }

    #[test]
    fn it_never_falls_below_the_floor() {
        let mut window = SendWindow::new(1 << 20, 4096);
        for _ in 0..100 {
            window.on_loss();
            window.on_timeout();
        }
        assert_eq!(window.packets(), 8);
    }

    #[test]
    fn losses_alone_leave_the_floor() {
        let mut window = SendWindow::new(1 << 20, 4096);
        for _ in 0..100 {
            window.on_loss();
        }
        assert_eq!(window.packets(), 8);
    }

    #[test]
    fn a_tiny_buffer_still_lets_two_packets_out() {
        assert_eq!(SendWindow::new(0, 4096).packets(), 2);
    }
}

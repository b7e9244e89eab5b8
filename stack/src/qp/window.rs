//! How much a requester keeps in flight.
//!
//! RC has no window of its own: the receiver's only brakes are credits, which count
//! messages, and loss. A receiver in software has a buffer that a few large bursts
//! fill. So what is in flight stays below what a port like ours holds, and goes
//! down when packets are lost: by a quarter for a loss, opened again by what is
//! acknowledged, as TCP does. The floor keeps a lossy but otherwise idle network
//! usable.

/// The window of one QP, in packets of the path MTU.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    packets: u64,
    /// Below this, the window doubles each round trip; above, it grows by one.
    threshold: u64,
    /// Acknowledged packets not yet turned into growth.
    acked: u64,
    floor: u64,
    limit: u64,
    /// Packets of the last window's worth that were acknowledged, and those repeated.
    recent: (u64, u64),
    /// What it was before a timeout.
    before_timeout: Option<u64>,
    /// What congestion control allows.
    allowed: u64,
    /// Something was lost since somebody asked.
    lost: bool,
}

/// The floor in bytes: half of the largest segmentation batch.
const FLOOR_BYTES: usize = 32 << 10;

/// More in flight than this helps on no network that sockets can fill.
// rule: 9.7.1-half-outstanding
const MAX_BYTES: usize = 1 << 20;

impl Window {
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
            allowed: u64::MAX,
            lost: false,
        }
    }

    /// Congestion control allows so many packets; any number if `None`.
    pub(crate) fn allow(&mut self, packets: Option<u64>) {
        self.allowed = packets.unwrap_or(u64::MAX);
    }

    /// Whether something was lost since this was last asked.
    pub(crate) fn take_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }

    /// How many packets may be in flight.
    pub(crate) fn packets(&self) -> u64 {
        self.packets.min(self.allowed)
    }

    /// So many packets have been acknowledged.
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

    /// A packet was lost, as a NAK or a missing response tells.
    pub(crate) fn on_loss(&mut self) {
        self.lost = true;
        self.packets = (self.packets * 3 / 4).max(self.floor);
        self.threshold = self.packets;
        self.acked = 0;
    }

    /// A packet was lost on its way to a peer that keeps what comes early. That costs
    /// one packet and not what is in flight, so the window shrinks only if much is lost,
    /// as it is when a buffer overflows: more than an eighth.
    pub(crate) fn on_repeat(&mut self) {
        self.lost = true;
        self.recent.1 += 1;
        if self.recent.1 > self.packets / 8 + 8 {
            self.recent = (0, 0);
            self.on_loss();
        }
    }

    /// The timeout before was for nothing: everything had arrived.
    pub(crate) fn undo_timeout(&mut self) {
        if let Some(packets) = self.before_timeout.take() {
            self.packets = packets;
            self.threshold = packets;
        }
    }

    /// Nothing came back for a whole timeout.
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
        let mut window = Window::new(256 << 10, 1024);
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
        let mut window = Window::new(1 << 20, 4096);
        for _ in 0..100 {
            window.on_loss();
            window.on_timeout();
        }
        assert_eq!(window.packets(), 8);
    }

    #[test]
    fn losses_alone_leave_the_floor() {
        let mut window = Window::new(1 << 20, 4096);
        for _ in 0..100 {
            window.on_loss();
        }
        assert_eq!(window.packets(), 8);
    }

    #[test]
    fn a_tiny_buffer_still_lets_two_packets_out() {
        assert_eq!(Window::new(0, 4096).packets(), 2);
    }
}

//! The rate limit that an application sets for a QP.

/// The maximum send rate of a QP, whatever congestion control allows. It counts all packets with
/// data: requests, retransmissions, and the responses to a peer's READs. The length of a packet
/// includes its headers, from the Ethernet header to the frame check sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// In units of 1,000 bits a second; 0 for no limit.
    pub kilobits_per_second: u32,
    /// The maximum burst in bytes; 0, or more than 65,536, means 65,536. A longer packet leaves
    /// alone. A QP that sends without a break sends bursts of the bytes that its rate allows in 10
    /// us, if this is less.
    pub max_burst_bytes: u32,
    /// The length of a typical packet in bytes; 0 means the path MTU. Each packet counts with its actual
    /// length, so this does not affect the rate. A limit whose bursts are smaller is refused.
    pub typical_packet_bytes: u32,
}

impl RateLimit {
    /// No limit.
    pub const NONE: Self = Self::kilobits_per_second(0);

    /// A limit of `rate`, in units of 1,000 bits a second, with the default burst; 0 for no limit.
    pub const fn kilobits_per_second(rate: u32) -> Self {
        Self {
            kilobits_per_second: rate,
            max_burst_bytes: 0,
            typical_packet_bytes: 0,
        }
    }

    /// The rate in bits a second; `None` for no limit.
    pub(crate) fn rate(self) -> Option<f64> {
        (self.kilobits_per_second != 0).then(|| f64::from(self.kilobits_per_second) * 1e3)
    }
}

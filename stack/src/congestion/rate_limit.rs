//! The rate that a program allows a QP.

/// The most that a QP may send, whatever congestion control allows it. All that leaves with
/// data counts, with headers and what goes with a packet on an Ethernet but its preamble:
/// requests, what is sent again, and the responses to a peer's READs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// In units of 1,000 bits a second; 0 for no limit.
    pub kilobits_per_second: u32,
    /// The most bytes that leave at once; 0 for the usual 65,536, and so are higher numbers.
    /// A packet that is longer leaves by itself. A QP that has not rested sends in bursts of
    /// what its rate allows in 10 us, if these are shorter.
    pub max_burst_bytes: u32,
}

impl RateLimit {
    /// No limit.
    pub const NONE: Self = Self {
        kilobits_per_second: 0,
        max_burst_bytes: 0,
    };

    /// So many units of 1,000 bits a second, in the usual bursts; 0 for no limit.
    pub const fn kilobits_per_second(rate: u32) -> Self {
        Self {
            kilobits_per_second: rate,
            max_burst_bytes: 0,
        }
    }

    /// In bits a second, if it is a limit.
    pub(crate) fn rate(self) -> Option<f64> {
        (self.kilobits_per_second != 0).then(|| f64::from(self.kilobits_per_second) * 1e3)
    }
}

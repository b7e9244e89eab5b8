//! Timestamps of captures.

use std::fmt;
use std::time::Duration;

const NS_PER_SEC: i128 = 1_000_000_000;

/// Nanoseconds since 1970-01-01 00:00 UTC. Wide enough for any value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::decode) struct Timestamp {
    ns: i128,
}

impl Timestamp {
    pub(in crate::decode) fn new(sec: i64, ns: i128) -> Self {
        Self {
            ns: i128::from(sec) * NS_PER_SEC + ns,
        }
    }

    /// Nanoseconds from `earlier` to this.
    pub(in crate::decode) fn ns_since(self, earlier: Timestamp) -> i128 {
        self.ns - earlier.ns
    }

    /// Time from `earlier` to this; zero if `earlier` is later.
    pub(in crate::decode) fn since(self, earlier: Timestamp) -> Duration {
        let ns = self.ns_since(earlier).clamp(0, i128::from(u64::MAX));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// Seconds with nine decimals.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Seconds(self.ns).to_string())
    }
}

/// A signed number of nanoseconds, shown as seconds with nine decimals.
#[derive(Clone, Copy, Debug)]
pub(in crate::decode) struct Seconds(pub(in crate::decode) i128);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        let per_sec = NS_PER_SEC.unsigned_abs();
        write!(f, "{sign}{}.{:09}", ns / per_sec, ns % per_sec)
    }
}

/// The length of a tick of a pcapng interface's clock: 10 to the power of minus the value, or, with
/// the top bit set, 2 to the power of minus the other seven bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolution(pub(super) u8);

impl Resolution {
    pub(super) const MICROSECONDS: Resolution = Resolution(6);

    /// `ticks` in nanoseconds, rounded down.
    pub(super) fn to_ns(self, ticks: u64) -> i128 {
        let ticks = i128::from(ticks);
        let exponent = u32::from(self.0 & 0x7f);
        if self.0 & 0x80 != 0 {
            // 64 bits of ticks times 30 bits fit; so do shifts up to 127.
            return (ticks * NS_PER_SEC) >> exponent;
        }
        match exponent {
            0..=9 => ticks * 10_i128.pow(9 - exponent),
            // 10^29 is above any number of ticks.
            10..=38 => ticks / 10_i128.pow(exponent - 9),
            _ => 0,
        }
    }
}

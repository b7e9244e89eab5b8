//! The limits of send rates: what QPs send, and how soon.

use super::{Oracle, Verdict, violated};
use roce_stack::{Duration, Instant, RateLimit};

/// The bytes of a packet besides its payload, from the Ethernet header to the frame check sequence.
const OVERHEAD: u64 = 62;

/// The burst of a limit that names none.
const LONGEST_BURST: u64 = 65_536;

/// A QP whose rate is limited: a bucket that fills as the QP sends, and leaks at the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    limit: RateLimit,
    longest_packet: u64,
    level: f64,
    sent: u64,
    at: Instant,
}

impl Bucket {
    /// The bytes that may be in the bucket: a burst, and a packet that began when one byte of it
    /// was left.
    fn capacity(&self) -> u64 {
        let burst = match self.limit.max_burst_bytes {
            0 => LONGEST_BURST,
            bytes => LONGEST_BURST.min(bytes.into()),
        };
        burst.max(self.longest_packet) + self.longest_packet
    }

    fn leak(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.at);
        let rate = f64::from(self.limit.kilobits_per_second) * 1e3;
        self.level = (self.level - time.as_secs_f64() * rate / 8.0).max(0.0);
        self.at = now;
    }
}

impl Oracle {
    /// The application or the path of a QP limits its rate from `now` on, when it has sent `sent`
    /// bytes of payload, in packets of at most `mtu`.
    pub fn rate_limited(
        &mut self,
        (pair, side): (usize, usize),
        (now, sent): (Instant, u64),
        limit: RateLimit,
        mtu: usize,
    ) {
        let bucket = Bucket {
            limit,
            longest_packet: mtu as u64 + OVERHEAD,
            level: 0.0,
            sent,
            at: now,
        };
        let is_limited = limit.kilobits_per_second != 0;
        self.pair(pair).buckets[side] = is_limited.then_some(bucket);
    }

    /// Whether the QP's rate is limited.
    pub fn is_rate_limited(&self, pair: usize, side: usize) -> bool {
        self.pairs[&pair].buckets[side].is_some()
    }

    /// A QP has sent `sent` bytes of payload by `now`.
    ///
    /// # Errors
    /// If its limit allows less.
    pub fn bytes_sent(&mut self, pair: usize, side: usize, now: Instant, sent: u64) -> Verdict {
        let Some(bucket) = &mut self.pair(pair).buckets[side] else {
            return Ok(());
        };
        // Some of these bytes may have been sent just after the last report, so they have leaked.
        bucket.level += sent.saturating_sub(bucket.sent) as f64;
        bucket.sent = sent;
        bucket.leak(now);
        if bucket.level > bucket.capacity() as f64 {
            return violated(format!(
                "pair {pair} side {side} is {} bytes ahead of its limit: {bucket:?}",
                bucket.level
            ));
        }
        Ok(())
    }
}

/// The CNPs of a QP that were counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenCnps {
    count: u64,
    /// When they were counted last.
    at: Instant,
    /// A time before the last of them was sent.
    after: Instant,
}

/// The congestion counters of a QP at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionCounts {
    /// Packets of its peer that arrived with a mark.
    pub marked: u64,
    /// CNPs that it sent.
    pub cnps_sent: u64,
    /// Marked packets for which no CNP was sent, because another one covers them.
    pub suppressed: u64,
    /// CNPs that it received.
    pub cnps_received: u64,
}

/// The counts that a QP may have.
#[derive(Clone, Copy, Debug)]
pub struct CongestionLimits {
    /// Whether a switch has marked any packet.
    pub any_marked: bool,
    /// Whether the packets have ECN bits: RoCE v1's have none.
    pub has_ecn: bool,
}

impl Oracle {
    /// A QP has sent `sent` CNPs by `now`, and must wait for `period` between two.
    ///
    /// # Errors
    /// If it has sent more than that allows since the last one.
    pub fn cnps_sent(
        &mut self,
        (pair, side): (usize, usize),
        now: Instant,
        sent: u64,
        period: Duration,
    ) -> Verdict {
        let seen = &mut self.pair(pair).cnps[side];
        let more = sent.saturating_sub(seen.count);
        if more > 0 {
            // The last one that was counted left after `seen.after`.
            let time = now.saturating_duration_since(seen.after).as_nanos();
            let least = period.as_nanos() * u128::from(more);
            if seen.count > 0 && least > time {
                return violated(format!(
                    "pair {pair} side {side} has sent {more} more CNPs within {time} ns: {seen:?}"
                ));
            }
            (seen.after, seen.count) = (seen.at, sent);
        }
        seen.at = now;
        Ok(())
    }

    /// Checks the congestion counters of both ends of a pair.
    ///
    /// # Errors
    /// If there are CNPs without a mark or without a sender.
    pub fn check_congestion(
        &self,
        pair: usize,
        counts: [CongestionCounts; 2],
        limits: CongestionLimits,
    ) -> Verdict {
        let known = &self.pairs[&pair];
        for side in [0, 1] {
            let own = counts[side];
            let Some(what) = wrong_counts(own, &limits, known.ends.kind.is_connected()) else {
                continue;
            };
            return violated(format!("pair {pair} side {side}: {what}: {own:?}"));
        }
        // A CNP has no PSN that tells whose it is.
        if known.causes.duplicates || known.causes.numbers_again {
            return Ok(());
        }
        for side in [0, 1] {
            if counts[side].cnps_received > counts[1 - side].cnps_sent {
                return violated(format!(
                    "pair {pair} side {side} received CNPs that its peer did not send: {counts:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The violations in the counts of one QP.
fn wrong_counts(
    counts: CongestionCounts,
    limits: &CongestionLimits,
    is_connected: bool,
) -> Option<&'static str> {
    let CongestionCounts {
        marked,
        cnps_sent,
        suppressed,
        cnps_received,
    } = counts;
    let marks = limits.any_marked && limits.has_ecn;
    match () {
        () if !marks && counts != CongestionCounts::default() => {
            Some("marks or CNPs without cause")
        }
        () if !is_connected && (cnps_sent, cnps_received) != (0, 0) => Some("CNPs of datagrams"),
        () if cnps_sent + suppressed > marked => Some("more CNPs than marks"),
        () => None,
    }
}

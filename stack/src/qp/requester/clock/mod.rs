//! The round-trip time, and the timer for late responses.
//!
//! The application sets the local ACK timeout, usually to many round trips. If the last packet of a
//! message or the only NAK is lost, the connection would idle for all of this time. So the
//! requester measures the round trip of packets that were sent only once (the response to a
//! retransmitted packet may belong to either copy). If a response does not arrive within the
//! smoothed round trip plus a margin, the requester retransmits a packet to get it, like TCP's tail
//! loss probe.

mod measurement;
mod slack;
#[cfg(test)]
mod tests;

use super::round_trip::{MAX_ROUND_TRIP, RoundTrips};
use crate::qp::Slack;
use crate::qp::attr::QpConfig;
use crate::seq::Seq;
use crate::time::{Duration, Instant, nanos};
use slack::{MAX_UNSURE, MIN_SLACK};

/// Each retransmission without a response doubles the time until the next one, at most this many
/// times.
const MAX_DOUBLINGS: u32 = 5;

/// After this many ambiguous responses in a row, the timer keeps its back-off (Karn's algorithm).
/// A response is ambiguous if it may belong to a retransmission. Perhaps responses have become
/// slower: each follows a retransmission, and only with a longer timer does a response arrive
/// before one.
const MAX_AMBIGUOUS: u32 = 2;

/// The number of round trips for which a packet without AckReq may stay unacknowledged.
const DEFERRAL_ROUND_TRIPS: u64 = 16;

/// Measures round trips, and runs the timer for late responses.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The smoothed round trip in nanoseconds; `None` until one was measured.
    srtt: Option<u64>,
    /// The mean deviation of round trips, in nanoseconds.
    deviation: u64,
    /// The slack above [`MIN_SLACK`], in nanoseconds.
    more_slack: u64,
    /// The time of the latest retransmission for a late response, unless it proved spurious.
    late_copy_sent_at: Option<Instant>,
    /// There was no progress after `late_copy_sent_at`.
    late_copy_is_newest: bool,
    /// The number of copies sent for the last late response that the peer has not acknowledged as
    /// duplicates yet, so that one of them may have caused the progress. 0 if acknowledgements do not
    /// show it.
    late_copies: u32,
    /// The number of successive retransmissions whose responses may have been to the copy, or late ones
    /// to the original.
    unsure: u8,
    /// The requester waits for a late response once more, to find out whether it needs a copy.
    waits_longer: bool,
    /// A late response has changed the slack since the last [`Clock::take_learned_slack`].
    learned: bool,
    /// The longest recent time between two responses while more of a SEND or WRITE was outstanding,
    /// in nanoseconds. It decays by a quarter with each shorter pause.
    longest_pause: u64,
    /// When the last response arrived; `None` if a packet was retransmitted since, or if nothing
    /// more was outstanding.
    last_answer: Option<Instant>,
    /// The packet whose round trip is being measured: one past its PSN, and when it was sent.
    timed: Option<(Seq, Instant)>,
    /// When packets were first retransmitted after the timed one was sent. From then on, its
    /// response is ambiguous: it may belong to a copy.
    ambiguous_since: Option<Instant>,
    doublings: u32,
    /// Retransmissions for a late response since the last progress.
    late_retransmissions: u32,
    /// The number of ambiguous responses to timed packets in a row.
    ambiguous: u32,
    /// The sender paused, so the timer was restarted although the response was late. This happens
    /// only once until there is progress.
    restarted: bool,
    /// When the first packet was sent after nothing had been outstanding. `None` while nothing is
    /// outstanding.
    outstanding_since: Option<Instant>,
    /// When the oldest packet was retransmitted because the peer had reported it as missing.
    retransmitted: Option<Instant>,
    /// When a response counts as late.
    deadline: Option<Instant>,
    /// All outstanding packets deferred their AckReq, and `deadline` is the time to request an
    /// acknowledgement of them.
    deferred: bool,
    /// One past the newest packet that did not defer its AckReq, and when it was sent.
    last_asked: Option<(Seq, Instant)>,
    /// Whether there is a local ACK timeout. If not, the application wants to wait for ever, and
    /// this timer never runs.
    enabled: bool,
    /// Round trips for congestion control and statistics.
    pub(super) trips: RoundTrips,
}

impl Clock {
    /// A clock that starts with `slack`, which a clock has learned; `None` if none has.
    pub(super) fn new(config: &QpConfig, slack: Option<Slack>) -> Self {
        Self {
            enabled: config.ack_timeout().is_some(),
            more_slack: slack.map_or(0, |slack| slack.0 - MIN_SLACK),
            ..Self::default()
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Notes that everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, now: Instant, una: Seq, outstanding: bool) {
        if let Some((end, sent)) = self.timed
            && una >= end
        {
            self.timed = None;
            // If responses have become slower, each is late at first, and follows a retransmission.
            // They must be measured nevertheless, or the later ones would be late, too.
            let ambiguous_since = self.ambiguous_since.take();
            if ambiguous_since.is_none_or(|copied| self.is_too_soon(now, copied)) {
                self.measured(now.nanos_since(sent));
                self.ambiguous = 0;
            } else {
                self.ambiguous = self.ambiguous.saturating_add(1);
            }
        }
        self.judge_late_copy(now);
        self.trips.on_progress(now, una);
        if self.ambiguous < MAX_AMBIGUOUS {
            self.doublings = 0;
        }
        self.late_retransmissions = 0;
        self.restarted = false;
        self.deadline = None;
        self.retransmitted = None;
        if !outstanding {
            self.outstanding_since = None;
        }
        if outstanding {
            match self.last_asked {
                Some((end, _)) if una >= end => self.arm_deferred(now),
                _ => self.arm(now),
            }
        }
    }

    /// Notes that a response arrived, and whether more of a SEND or WRITE is outstanding. Measures
    /// the time since the last response: a host that receives much data responds in bursts, with
    /// pauses between them.
    pub(super) fn note_pause(&mut self, now: Instant, outstanding: bool) {
        if let Some(last) = self.last_answer {
            let pause = now.nanos_since(last).min(MAX_ROUND_TRIP);
            self.longest_pause = pause.max(self.longest_pause - self.longest_pause / 4);
        }
        self.last_answer = outstanding.then_some(now);
    }

    /// Notes that a packet was sent; `end` is one past its PSN.
    pub(super) fn on_sent(&mut self, now: Instant, end: Seq) {
        self.outstanding_since = self.outstanding_since.or(Some(now));
        self.last_asked = Some((end, now));
        if self.deadline.is_none() || self.deferred {
            self.arm(now);
        }
    }

    /// Notes that a packet was sent without asking for an acknowledgement.
    pub(super) fn on_ack_req_deferred(&mut self, now: Instant) {
        self.outstanding_since = self.outstanding_since.or(Some(now));
        if self.deadline.is_none() || self.deferred {
            self.arm_deferred(now);
        }
    }

    /// Whether a packet may defer its AckReq: responses arrive in time, and an earlier packet
    /// requested an acknowledgement recently. `timeout`, the local ACK timeout, must be long in
    /// comparison with the deferral.
    pub(super) fn may_defer_ack_req(&self, now: Instant, timeout: Option<Duration>) -> bool {
        let (Some(srtt), Some((_, asked))) = (self.srtt, self.last_asked) else {
            return false;
        };
        let deferral = self.deferral(srtt);
        let far_off = timeout.is_some_and(|timeout| nanos(timeout) > deferral * 4);
        let asked_recently = now.nanos_since(asked) < srtt * DEFERRAL_ROUND_TRIPS;
        far_off && self.doublings == 0 && asked_recently
    }

    /// The longest time, in nanoseconds, for which a packet may defer its AckReq before the requester
    /// asks for an acknowledgement.
    fn deferral(&self, srtt: u64) -> u64 {
        (srtt + self.deviation) * DEFERRAL_ROUND_TRIPS + self.slack()
    }

    /// Whether it is time to request an acknowledgement of packets that deferred their AckReq.
    /// Stops the timer if so.
    pub(super) fn deferral_ended(&mut self, now: Instant) -> bool {
        let ended = self.deferred && self.deadline.is_some_and(|deadline| deadline <= now);
        if ended {
            self.deferred = false;
            self.deadline = None;
        }
        ended
    }

    /// Notes that a packet was retransmitted, and restarts the timer.
    pub(super) fn on_retransmitted(&mut self, now: Instant) {
        self.last_answer = None;
        self.trips.discard_timings();
        self.arm(now);
    }

    /// Notes that the packet or the response at `at` is missing, and is retransmitted or requested
    /// again now. The next response belongs to this retransmission. If no round trip was measured
    /// before, the time since the first outstanding packet was sent counts as one.
    pub(super) fn on_missing(&mut self, now: Instant, at: Seq) {
        if self.srtt.is_none()
            && let Some(since) = self.outstanding_since
        {
            self.measured(now.nanos_since(since));
        }
        self.timed = Some((at.next(), now));
        self.ambiguous_since = None;
        self.late_copy_sent_at = None;
        self.waits_longer = false;
        // The network loses packets, so late responses are likely to be lost, too. This says nothing
        // about the hosts, so other QPs do not learn it.
        self.unsure = 0;
        self.more_slack = self.more_slack.saturating_sub(self.slack() / 8);
        self.last_answer = None;
        self.trips.discard_timings();
        self.retransmitted = Some(now);
        self.arm(now);
    }

    /// Whether the response is late. If so, stops the timer and increases the back-off. See also
    /// [`MAX_UNSURE`].
    pub(super) fn expired(&mut self, now: Instant) -> bool {
        let late = self.deadline.is_some_and(|deadline| deadline <= now);
        let is_first = self.late_retransmissions == 0;
        if late && is_first && self.unsure >= MAX_UNSURE && !self.waits_longer {
            self.waits_longer = true;
            self.arm(now);
            return false;
        }
        if late {
            self.deadline = None;
            self.late_copy_sent_at = Some(now);
            self.late_copy_is_newest = true;
            if is_first {
                self.late_copies = 0;
            }
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            self.late_retransmissions = self.late_retransmissions.saturating_add(1);
        }
        late
    }

    /// Whether this is the first retransmission for a late response since the last progress.
    pub(super) fn is_first_late_retransmission(&self) -> bool {
        self.late_retransmissions <= 1
    }

    /// Restarts the timer after a pause of the sender, if the response is late. Returns whether it
    /// did. While a retransmission waits to be sent (`waits`), the timer restarts every time;
    /// otherwise only once until there is progress.
    pub(super) fn restart_after_pause(&mut self, now: Instant, waits: bool) -> bool {
        let late = self.deadline.is_some_and(|at| at <= now);
        if late && (waits || !self.restarted) {
            self.restarted |= !waits;
            self.arm(now);
            return true;
        }
        false
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
        self.retransmitted = None;
        self.outstanding_since = None;
        self.last_answer = None;
        self.late_copy_sent_at = None;
        self.waits_longer = false;
        self.timed = None;
        self.ambiguous_since = None;
        self.trips.discard_timings();
    }

    fn arm_deferred(&mut self, now: Instant) {
        self.deferred = true;
        let deferral = self.srtt.map(|srtt| self.deferral(srtt));
        self.deadline = deferral
            .filter(|_| self.enabled)
            .map(|deferral| now.after_nanos(deferral));
    }

    fn arm(&mut self, now: Instant) {
        self.deferred = false;
        let pause = self.longest_pause * 2;
        self.deadline = self
            .wait()
            .filter(|_| self.enabled)
            .map(|wait| now.after_nanos(wait.max(pause) << self.doublings));
    }

    /// The time, in nanoseconds, within which a response to a packet arrives, if a round trip was
    /// measured.
    fn wait(&self) -> Option<u64> {
        let srtt = self.srtt?;
        Some(srtt + (self.deviation * 4).max(self.slack()))
    }
}

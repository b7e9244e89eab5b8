//! The round-trip time, and the timer for late responses.
//!
//! The application sets the local ACK timeout, usually to many round trips. If the last packet of a
//! message or the only NAK is lost, the connection would idle for all of this time. So the
//! requester measures the round trip of packets that were sent only once (the response to a
//! retransmitted packet may belong to either copy). If a response does not arrive within the
//! smoothed round trip plus a margin, the requester retransmits a packet to get it, like TCP's tail
//! loss probe.

use super::round_trip::{MAX_ROUND_TRIP, RoundTrips};
use crate::qp::attr::QpConfig;
use crate::seq::Seq;
use crate::time::{Duration, Instant, nanos};

/// The least slack: the delay, in nanoseconds, that the hosts may add to a round trip before a
/// response counts as late. The slack doubles with each retransmission that proves spurious, up to
/// [`MAX_SLACK`], and shrinks by a quarter with each one that proves needed, and by an eighth with
/// each loss that the peer reports. A new QP starts with the slack that another QP of the NIC has
/// learned last, since the delay is the hosts'.
///
/// The maximum is the longest silence of a peer of this kind that is not busy: its background
/// thread takes over 2.5 ms after its application has stopped polling.
const MIN_SLACK: u64 = 10_000;
const MAX_SLACK: u64 = 256 * MIN_SLACK;

/// Each retransmission without a response doubles the time until the next one, at most this many
/// times.
const MAX_DOUBLINGS: u32 = 5;

/// After this many ambiguous responses in a row, the timer keeps its back-off (Karn's algorithm).
/// A response is ambiguous if it may belong to a retransmission. Perhaps responses have become
/// slower: each follows a retransmission, and only with a longer timer does a response arrive
/// before one.
const MAX_AMBIGUOUS: u32 = 2;

/// After this many retransmissions in a row that may have been needed or not, the requester waits
/// for the next late response twice as long before it retransmits. A response that comes meanwhile
/// shows that the peer is slow. Without this, a peer that is often interrupted for as long as a
/// round trip would look like a network that loses packets.
const MAX_UNSURE: u8 = 2;

/// The number of round trips for which a packet without AckReq may stay unacknowledged.
const DEFERRAL_ROUND_TRIPS: u64 = 16;

/// A slack in nanoseconds, from [`MIN_SLACK`] to [`MAX_SLACK`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack(u64);

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
    /// The copies sent for the last late response that may have caused the progress: those that the
    /// peer has not yet acknowledged as duplicates. 0 if acknowledgements do not show it.
    late_copies: u32,
    /// The number of retransmissions in a row after which the response came when either a response
    /// to the copy or one of a slow peer would.
    unsure: u8,
    /// The requester waits for a late response once more, to find out whether it needs a copy.
    waits_longer: bool,
    /// The slack has changed since the last [`Clock::take_learned_slack`].
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

    /// Starts timing a packet that asks for an acknowledgement and was sent for the first time;
    /// `end` is one past its PSN.
    pub(super) fn time(&mut self, now: Instant, end: Seq) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Discards the measurement in progress, after a retransmission: the response may belong to
    /// either copy.
    pub(super) fn discard_timings(&mut self) {
        self.timed = None;
        self.ambiguous_since = None;
        self.trips.discard_timings();
    }

    /// Notes a retransmission because a response is late. It may be spurious: then the next
    /// response belongs to the timed packet. So the measurement goes on, marked as ambiguous.
    pub(super) fn mark_ambiguous(&mut self, now: Instant) {
        self.ambiguous_since = self.timed.and(self.ambiguous_since.or(Some(now)));
        self.trips.discard_timings();
    }

    /// Whether a response that arrives now can't belong to a copy that was sent at `copied`,
    /// because less than three quarters of a round trip have passed.
    fn is_too_soon(&self, now: Instant, copied: Instant) -> bool {
        self.srtt
            .is_some_and(|srtt| now.nanos_since(copied) < srtt * 3 / 4)
    }

    /// Judges the last retransmission for a late response when there is progress. It was spurious
    /// if the response came too soon to belong to it. If the response came too late even for a
    /// response to the copy, the peer or the network is slow, and the wait was too short as well.
    /// In between, it may have been needed; it was needed if a longer wait had brought no response.
    fn judge_late_copy(&mut self, now: Instant) {
        let waited = core::mem::take(&mut self.waits_longer);
        if waited && self.late_retransmissions == 0 {
            self.late_was_spurious();
            return;
        }
        let Some(copied) = self.late_copy_sent_at else {
            return;
        };
        if self.is_too_soon(now, copied) {
            self.late_was_spurious();
        } else if core::mem::take(&mut self.late_copy_is_newest) {
            if self
                .wait()
                .is_some_and(|wait| now.nanos_since(copied) > wait)
            {
                self.late_was_spurious();
            } else if waited {
                self.unsure = 0;
                self.more_slack = self.more_slack.saturating_sub(self.slack() / 4);
                self.learned = true;
            } else {
                self.unsure = self.unsure.saturating_add(1);
            }
        }
    }

    /// Notes that `copies` packets are retransmitted because a response is late, and that the peer
    /// acknowledges each of them that is a duplicate.
    pub(super) fn note_late_copies(&mut self, copies: u32) {
        self.late_copies = self.late_copies.saturating_add(copies);
    }

    /// Notes an acknowledgement without progress. If the peer has acknowledged each copy as a
    /// duplicate, none of them caused the progress, and they were spurious.
    pub(super) fn on_duplicate_ack(&mut self) {
        let judged = self.late_copy_sent_at.is_some() && !self.late_copy_is_newest;
        if judged && self.late_copies > 0 {
            self.late_copies -= 1;
            if self.late_copies == 0 {
                self.late_was_spurious();
            }
        }
    }

    /// The slack, if it has changed since the last call.
    #[inline]
    pub(super) fn take_learned_slack(&mut self) -> Option<Slack> {
        core::mem::take(&mut self.learned).then(|| Slack(self.slack()))
    }

    /// Notes that a response to an acknowledged READ or atomic arrived. If it was requested again
    /// because it was late, that was spurious.
    pub(super) fn on_duplicate_response(&mut self) {
        if self.late_copy_sent_at.is_some() {
            self.late_was_spurious();
        }
    }

    fn late_was_spurious(&mut self) {
        self.late_copy_sent_at = None;
        self.unsure = 0;
        self.more_slack = (self.slack() * 2).min(MAX_SLACK) - MIN_SLACK;
        self.learned = true;
    }

    /// See [`MIN_SLACK`].
    fn slack(&self) -> u64 {
        MIN_SLACK + self.more_slack
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

    fn measured(&mut self, round_trip: u64) {
        let round_trip = round_trip.min(MAX_ROUND_TRIP);
        match &mut self.srtt {
            None => {
                self.srtt = Some(round_trip);
                self.deviation = round_trip / 2;
            }
            Some(srtt) => {
                let off = srtt.abs_diff(round_trip);
                self.deviation = (self.deviation * 3 + off) / 4;
                *srtt = (*srtt * 7 + round_trip) / 8;
            }
        }
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
        let deferral = srtt * DEFERRAL_ROUND_TRIPS;
        let far_off = timeout.is_some_and(|timeout| nanos(timeout) > deferral * 4);
        far_off && self.doublings == 0 && now.nanos_since(asked) < deferral
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
        // The network loses packets, so late responses are likely to be lost, too.
        self.unsure = 0;
        self.more_slack = self.more_slack.saturating_sub(self.slack() / 8);
        self.last_answer = None;
        self.trips.discard_timings();
        self.retransmitted = Some(now);
        self.arm(now);
    }

    /// Whether a report of a missing packet that arrives now is stale: the packet was retransmitted
    /// less than three quarters of a round trip ago, so the peer sent the report before the
    /// retransmission arrived.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.retransmitted
            .is_some_and(|at| self.is_too_soon(now, at))
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
        self.deadline = self.srtt.filter(|_| self.enabled).map(|srtt| {
            now.after_nanos((srtt + self.deviation) * DEFERRAL_ROUND_TRIPS + self.slack())
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::Psn;

    fn clock() -> Clock {
        starting_with(None)
    }

    fn starting_with(slack: Option<Slack>) -> Clock {
        let config = QpConfig {
            timeout: 14,
            ..QpConfig::default()
        };
        Clock::new(&config, slack)
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// A clock that has measured a round trip of 20 us, with one packet outstanding since `start`.
    fn waiting(start: u64) -> (Clock, Seq) {
        let end = Seq::initial(Psn::new(0)) + 1;
        let mut clock = clock();
        clock.measured(20_000);
        clock.deviation = 0;
        clock.on_sent(at(start), end);
        (clock, end)
    }

    /// The time in microseconds that a response has, from when its packet was sent.
    fn patience(clock: &mut Clock) -> u64 {
        clock.doublings = 0;
        clock.arm(at(0));
        let deadline = clock.deadline.expect("it runs");
        deadline.nanos_since(at(0)) / 1000
    }

    #[test]
    fn spurious_retransmissions_lengthen_the_wait_and_others_shorten_it() {
        let (mut clock, end) = waiting(0);
        assert_eq!(patience(&mut clock), 30);
        // The response comes too soon after the copy to belong to it.
        let waits = [40, 60, 100, 180, 340, 660, 1300, 2580, 2580];
        for (round, expected) in waits.into_iter().enumerate() {
            let copied = at(1000 * (round as u64 + 1));
            clock.arm(at(0));
            assert!(clock.expired(copied));
            clock.on_progress(copied.after_nanos(1000), end, true);
            assert_eq!(patience(&mut clock), expected);
        }
        // Of three that come in time for the copy, the third has had twice the time without one.
        for round in 0..60 {
            clock.arm(at(0));
            let copied = at(10_000 * (round + 1));
            if round % 3 == 2 {
                assert!(!clock.expired(copied), "it waits once more");
                clock.arm(at(0));
            }
            assert!(clock.expired(copied));
            clock.on_progress(copied.after_nanos(20_000), end, true);
            // Further progress does not judge the same copy again.
            clock.on_progress(copied.after_nanos(20_000), end, true);
        }
        assert_eq!(patience(&mut clock), 30);
    }

    #[test]
    fn a_new_clock_starts_with_the_slack_that_another_has_learned() {
        let (mut slow, end) = waiting(0);
        assert!(slow.take_learned_slack().is_none());
        assert!(slow.expired(at(1000)));
        slow.on_progress(at(1001), end, true);
        let learned = slow.take_learned_slack();
        assert!(learned.is_some() && slow.take_learned_slack().is_none());
        let mut other = starting_with(learned);
        other.measured(20_000);
        other.deviation = 0;
        assert_eq!(patience(&mut other), 40);
    }

    #[test]
    fn losses_that_the_peer_reports_shorten_the_wait() {
        let (mut clock, end) = waiting(0);
        assert!(clock.expired(at(1000)));
        clock.on_progress(at(1001), end, true);
        assert_eq!(patience(&mut clock), 40);
        clock.on_missing(at(2000), end);
        assert_eq!(clock.slack(), 17_500, "an eighth of 20 us less");
        for _ in 0..100 {
            clock.on_missing(at(2000), end);
        }
        assert_eq!(clock.slack(), MIN_SLACK);
    }

    /// A peer that was interrupted answers late, and not too soon after the copy to answer it.
    #[test]
    fn a_response_that_is_late_even_for_the_copy_shows_a_slow_peer() {
        let (mut clock, end) = waiting(0);
        assert!(clock.expired(at(1000)));
        clock.on_progress(at(1030), end, true);
        assert_eq!(patience(&mut clock), 30, "in time for the copy");
        assert!(clock.expired(at(2000)));
        clock.on_progress(at(2031), end, true);
        assert_eq!(patience(&mut clock), 40);
    }

    /// A response that comes without a copy shows that the peer is slow.
    #[test]
    fn in_doubt_the_requester_waits_once_more() {
        let (mut clock, end) = waiting(0);
        for round in 1..=2 {
            assert!(clock.expired(at(round * 1000)));
            clock.on_progress(at(round * 1000 + 20), end, true);
        }
        assert_eq!(patience(&mut clock), 30);
        assert!(!clock.expired(at(3000)));
        assert_eq!(clock.deadline, Some(at(3030)));
        clock.on_progress(at(3020), end, true);
        assert_eq!(patience(&mut clock), 40);
        assert!(clock.expired(at(4000)), "no doubt is left");
    }

    #[test]
    fn copies_that_are_all_acknowledged_as_duplicates_were_spurious() {
        for (copies, patient) in [(1, 40), (2, 40), (3, 30)] {
            let (mut clock, end) = waiting(0);
            assert!(clock.expired(at(1000)));
            clock.note_late_copies(copies);
            // Before there is progress, an acknowledgement says nothing about the copies.
            clock.on_duplicate_ack();
            clock.on_progress(at(1020), end, true);
            (0..2).for_each(|_| clock.on_duplicate_ack());
            assert_eq!(
                patience(&mut clock),
                patient,
                "{copies} copies, 2 duplicates"
            );
        }
    }

    #[test]
    fn a_duplicate_response_shows_that_its_copy_was_spurious() {
        let (mut clock, end) = waiting(0);
        clock.on_duplicate_response();
        assert_eq!(patience(&mut clock), 30, "nothing was retransmitted");
        assert!(clock.expired(at(1000)));
        clock.on_progress(at(1020), end, true);
        clock.on_duplicate_response();
        clock.on_duplicate_response();
        assert_eq!(patience(&mut clock), 40, "one copy, one lesson");
    }

    #[test]
    fn an_answer_is_late_only_by_what_was_measured() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.on_sent(at(0), seq + 9);
        assert_eq!(clock.deadline(), None, "nothing was measured yet");
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, true);
        // 100 us and four times the first guess at the deviation.
        assert_eq!(clock.deadline(), Some(at(100 + 300)));
        assert!(!clock.expired(at(399)));
        assert!(clock.expired(at(400)));
        clock.on_retransmitted(at(400));
        assert_eq!(clock.deadline(), Some(at(400 + 600)), "twice as long");
        clock.on_progress(at(500), seq + 2, true);
        assert_eq!(clock.deadline(), Some(at(500 + 300)));
        clock.on_progress(at(600), seq + 3, false);
        assert_eq!(clock.deadline(), None, "nothing is outstanding");
    }

    /// Each response takes more than four times as long as before from now on.
    #[test]
    fn answers_that_have_become_slower_are_learned() {
        let mut seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, false);
        let (mut now, mut late) = (1000, 0);
        for _ in 0..50 {
            seq = seq.next();
            clock.on_sent(at(now), seq);
            clock.time(at(now), seq);
            for us in now..now + 450 {
                if clock.expired(at(us)) {
                    late += 1;
                    clock.mark_ambiguous(at(us));
                    clock.on_retransmitted(at(us));
                }
            }
            now += 450;
            clock.on_progress(at(now), seq, false);
        }
        assert!(late <= 4, "{late} retransmissions for nothing");
    }

    #[test]
    fn a_peer_that_answers_in_bursts_may_pause_again() {
        let mut seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(10), seq + 1, false);
        clock.on_sent(at(100), seq + 9);
        // Two responses 80 us apart, and the third one round trip later.
        for (us, late) in [(110, 110 + 10 + 20), (190, 190 + 160), (200, 200 + 120)] {
            seq = seq.next();
            clock.note_pause(at(us), true);
            clock.on_progress(at(us), seq, true);
            assert_eq!(clock.deadline(), Some(at(late)), "at {us} us");
        }
        // After a retransmission, the time since the last answer says nothing about the peer.
        clock.on_retransmitted(at(900));
        clock.note_pause(at(1000), true);
        clock.on_progress(at(1000), seq + 1, true);
        assert_eq!(clock.deadline(), Some(at(1000 + 120)));
    }

    #[test]
    fn what_was_repeated_is_not_measured() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.discard_timings();
        clock.on_progress(at(1), seq + 1, true);
        assert_eq!(clock.srtt, None);
    }

    #[test]
    fn the_usual_round_trip_follows_what_is_measured() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        for n in 1..100 {
            let sent = at(n * 1000);
            clock.time(sent, seq + n);
            clock.on_progress(sent + Duration::from_micros(50), seq + n, false);
        }
        assert_eq!(clock.srtt, Some(50_000));
        assert!(clock.deviation < 10);
    }

    /// With the weights of TCP.
    #[test]
    fn a_measurement_counts_an_eighth_and_its_deviation_a_quarter() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, false);
        clock.time(at(200), seq + 2);
        clock.on_progress(at(340), seq + 2, false);
        assert_eq!(clock.srtt, Some(105_000));
        assert_eq!(clock.deviation, 47_500);
    }

    /// If the very first answer is a NAK, it belongs to the oldest outstanding packet.
    #[test]
    fn a_first_answer_is_measured_from_the_oldest_packet_outstanding() {
        let seq = Seq::initial(Psn::new(0));
        for (outstanding, srtt) in [(false, 50_000), (true, 150_000)] {
            let mut clock = clock();
            clock.on_sent(at(0), seq + 1);
            clock.on_progress(at(10), seq + 1, outstanding);
            clock.on_sent(at(100), seq + 2);
            clock.on_missing(at(150), seq + 1);
            assert_eq!(clock.srtt, Some(srtt));
        }
    }

    /// If a report arrives less than three quarters of a round trip after a retransmission, the
    /// peer sent it before the retransmission arrived.
    #[test]
    fn news_of_what_is_repeated_takes_most_of_a_round_trip() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        assert!(!clock.is_stale(at(0)), "nothing was retransmitted");
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, true);
        assert!(!clock.is_stale(at(100)), "nothing was retransmitted");
        clock.on_missing(at(1000), seq + 1);
        assert!(clock.is_stale(at(1074)));
        assert!(!clock.is_stale(at(1075)));
    }

    /// A sender that pauses after each packet finds answers late at the end of each pause.
    #[test]
    fn an_answer_is_excused_once_unless_what_it_answers_waits() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, true);
        assert!(!clock.restart_after_pause(at(399), false), "it is not late");
        assert!(clock.restart_after_pause(at(400), true));
        assert!(clock.restart_after_pause(at(700), false), "the first time");
        assert!(clock.restart_after_pause(at(1000), true));
        assert!(!clock.restart_after_pause(at(1300), false));
        assert!(clock.expired(at(1300)));
        clock.on_retransmitted(at(1300));
        clock.on_progress(at(1400), seq + 2, true);
        assert!(
            clock.restart_after_pause(at(1700), false),
            "there was progress"
        );
    }

    #[test]
    fn only_the_first_question_since_progress_is_the_first() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, true);
        for first in [true, false] {
            assert!(clock.expired(at(100_000)));
            assert_eq!(clock.is_first_late_retransmission(), first);
            clock.on_retransmitted(at(1000));
        }
        clock.on_progress(at(200_000), seq + 2, true);
        assert!(clock.is_first_late_retransmission());
    }
}

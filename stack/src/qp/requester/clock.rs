//! The round-trip time, and the timer for late responses.
//!
//! The application sets the local ACK timeout, and sets it to many round trips. If the last packet
//! of a message or the only NAK is lost, all of this time would pass unused. So the requester
//! measures the round trip of packets that were sent only once (the response to a retransmitted
//! packet may belong to either copy). If a response does not arrive within the usual round trip
//! plus a margin, the requester asks for it with a retransmission, as TCP does.

use super::round_trip::{LONGEST, RoundTrips};
use crate::qp::attr::QpConfig;
use crate::seq::Seq;
use crate::time::{Duration, Instant, nanos};

/// The delay, in nanoseconds, that the hosts may add to a round trip before a response counts as
/// late.
const SLACK: u64 = 10_000;

/// Each retransmission without a response doubles the wait for the next, up to 2^5 times.
const MAX_DOUBLINGS: u32 = 5;

/// After this many answers in a row that may belong to a retransmission, the wait stays as long as
/// it was for the last (Karn's algorithm): perhaps answers have become slower, each is late, and
/// only a longer wait can measure one.
const UNCLEAR: u32 = 2;

/// The number of round trips that a packet which did not ask for an acknowledgement may stay
/// unacknowledged.
const DEFERRAL_ROUND_TRIPS: u64 = 16;

/// Measures round trips, and runs the timer for late responses.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The usual round trip in nanoseconds; `None` until one was measured.
    usual: Option<u64>,
    /// The mean deviation of round trips, in nanoseconds.
    deviation: u64,
    /// The longest time lately between two answers while more were outstanding, in nanoseconds.
    pause: u64,
    /// When the last answer came, if no packet was retransmitted since.
    answered: Option<Instant>,
    /// The packet that is being timed: one past its PSN, and when it was sent.
    timed: Option<(Seq, Instant)>,
    /// When packets were first retransmitted since the timed one was sent: its answer may belong to
    /// a copy.
    doubted: Option<Instant>,
    doublings: u32,
    /// Questions since the last progress.
    questions: u32,
    /// The number of timed packets in a row whose answer may belong to a retransmission.
    unclear: u32,
    /// The timer was restarted once although the response was late, because the sender had paused.
    excused: bool,
    /// When packets last began to be outstanding: the time of the first one sent. `None` while
    /// nothing is outstanding.
    since: Option<Instant>,
    /// When the oldest packet was retransmitted because the peer missed it.
    repeated: Option<Instant>,
    /// When a response counts as late.
    deadline: Option<Instant>,
    /// All outstanding packets deferred their AckReq, and `deadline` is when to ask about them.
    deferred: bool,
    /// One past the newest packet that did not defer its AckReq, and when it was sent.
    asked: Option<(Seq, Instant)>,
    /// False without a local ACK timeout: then the timer never runs, since the application wants to
    /// wait for ever.
    enabled: bool,
    /// Round trips for congestion control and statistics.
    pub(super) trips: RoundTrips,
}

impl Clock {
    pub(super) fn new(config: &QpConfig) -> Self {
        Self {
            enabled: config.ack_timeout().is_some(),
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

    /// Stops timing after a retransmission: an answer may belong to either copy.
    pub(super) fn distrust(&mut self) {
        self.timed = None;
        self.doubted = None;
        self.trips.distrust();
    }

    /// Notes a retransmission because an answer is late, which may have been for nothing: then the
    /// next answer is that of the packet being timed.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.doubted = self.timed.and(self.doubted.or(Some(now)));
        self.trips.distrust();
    }

    /// Whether an answer that arrives now can't be for a copy that was sent at `copied`: too little
    /// time has passed.
    fn is_too_soon(&self, now: Instant, copied: Instant) -> bool {
        self.usual
            .is_some_and(|usual| now.nanos_since(copied) < usual * 3 / 4)
    }

    /// Notes that everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, now: Instant, una: Seq, outstanding: bool) {
        if let Some((end, sent)) = self.timed
            && una >= end
        {
            self.timed = None;
            // If answers have become slower, each is late at first, and followed by a
            // retransmission. It must be measured all the same, or the next ones would be late, too.
            let doubted = self.doubted.take();
            if doubted.is_none_or(|copied| self.is_too_soon(now, copied)) {
                self.measured(now.nanos_since(sent));
                self.unclear = 0;
            } else {
                self.unclear = self.unclear.saturating_add(1);
            }
        }
        self.trips.on_progress(now, una);
        if self.unclear < UNCLEAR {
            self.doublings = 0;
        }
        self.questions = 0;
        self.excused = false;
        self.deadline = None;
        self.repeated = None;
        if !outstanding {
            self.since = None;
        }
        if outstanding {
            match self.asked {
                Some((end, _)) if una >= end => self.wait_deferred(now),
                _ => self.wait(now),
            }
        }
    }

    /// Notes that an answer arrived, and whether more of a SEND or WRITE is outstanding. Measures the
    /// time since the last answer: a host that takes much data answers in bursts, and does something
    /// else in between.
    pub(super) fn note_pause(&mut self, now: Instant, outstanding: bool) {
        if let Some(last) = self.answered {
            let pause = now.nanos_since(last).min(LONGEST);
            self.pause = pause.max(self.pause - self.pause / 4);
        }
        self.answered = outstanding.then_some(now);
    }

    fn measured(&mut self, round_trip: u64) {
        let round_trip = round_trip.min(LONGEST);
        match &mut self.usual {
            None => {
                self.usual = Some(round_trip);
                self.deviation = round_trip / 2;
            }
            Some(usual) => {
                let off = usual.abs_diff(round_trip);
                self.deviation = (self.deviation * 3 + off) / 4;
                *usual = (*usual * 7 + round_trip) / 8;
            }
        }
    }

    /// Notes that a packet was sent; `end` is one past its PSN.
    pub(super) fn on_sent(&mut self, now: Instant, end: Seq) {
        self.since = self.since.or(Some(now));
        self.asked = Some((end, now));
        if self.deadline.is_none() || self.deferred {
            self.wait(now);
        }
    }

    /// Notes that a packet was sent without asking for an acknowledgement.
    pub(super) fn on_ack_req_deferred(&mut self, now: Instant) {
        self.since = self.since.or(Some(now));
        if self.deadline.is_none() || self.deferred {
            self.wait_deferred(now);
        }
    }

    /// Whether a packet may go without asking for an acknowledgement: answers arrive in time, and
    /// one was asked for recently. `timeout`, the local ACK timeout, must be long in comparison.
    pub(super) fn may_defer_ack_req(&self, now: Instant, timeout: Option<Duration>) -> bool {
        let (Some(usual), Some((_, asked))) = (self.usual, self.asked) else {
            return false;
        };
        let deferral = usual * DEFERRAL_ROUND_TRIPS;
        let far_off = timeout.is_some_and(|timeout| nanos(timeout) > deferral * 4);
        far_off && self.doublings == 0 && now.nanos_since(asked) < deferral
    }

    /// Whether it is time to ask about packets that deferred their AckReq. Stops the timer then.
    pub(super) fn deferral_ended(&mut self, now: Instant) -> bool {
        let ended = self.deferred && self.deadline.is_some_and(|deadline| deadline <= now);
        if ended {
            self.deferred = false;
            self.deadline = None;
        }
        ended
    }

    /// Notes that a packet was retransmitted, and restarts the timer.
    pub(super) fn on_repeated(&mut self, now: Instant) {
        self.answered = None;
        self.trips.distrust();
        self.wait(now);
    }

    /// Notes that the packet or the response at `at` is missing, and is retransmitted or requested
    /// again now: the next response belongs to it. If no round trip was measured before, the time
    /// since the first outstanding packet was sent counts as one.
    pub(super) fn on_missing(&mut self, now: Instant, at: Seq) {
        if self.usual.is_none()
            && let Some(since) = self.since
        {
            self.measured(now.nanos_since(since));
        }
        self.timed = Some((at.next(), now));
        self.doubted = None;
        self.answered = None;
        self.trips.distrust();
        self.repeated = Some(now);
        self.wait(now);
    }

    /// Whether the missing packet was retransmitted less than three quarters of a round trip ago:
    /// then the peer reported it as missing before the retransmission arrived.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.repeated.is_some_and(|at| self.is_too_soon(now, at))
    }

    /// Whether the answer is late. Stops the timer then.
    pub(super) fn expired(&mut self, now: Instant) -> bool {
        let late = self.deadline.is_some_and(|deadline| deadline <= now);
        if late {
            self.deadline = None;
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            self.questions = self.questions.saturating_add(1);
        }
        late
    }

    /// Whether this is the first retransmission for a late response since the last progress.
    pub(super) fn asks_first(&self) -> bool {
        self.questions <= 1
    }

    /// Restarts the timer after a pause if the response is late, and returns whether it did. While
    /// the missing packet waits to be sent (`waits`), it restarts every time; otherwise only once
    /// until there is progress.
    pub(super) fn excuse(&mut self, now: Instant, waits: bool) -> bool {
        let late = self.deadline.is_some_and(|at| at <= now);
        if late && (waits || !self.excused) {
            self.excused |= !waits;
            self.wait(now);
            return true;
        }
        false
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
        self.repeated = None;
        self.since = None;
        self.answered = None;
        self.timed = None;
        self.doubted = None;
        self.trips.distrust();
    }

    fn wait_deferred(&mut self, now: Instant) {
        self.deferred = true;
        self.deadline = self
            .usual
            .filter(|_| self.enabled)
            .map(|usual| now.after_nanos((usual + self.deviation) * DEFERRAL_ROUND_TRIPS + SLACK));
    }

    fn wait(&mut self, now: Instant) {
        self.deferred = false;
        let pause = self.pause * 2;
        self.deadline = self
            .usual
            .filter(|_| self.enabled)
            .map(|usual| (usual + (self.deviation * 4).max(SLACK)).max(pause) << self.doublings)
            .map(|late| now.after_nanos(late));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::Psn;

    fn clock() -> Clock {
        Clock::new(&QpConfig {
            timeout: 14,
            ..QpConfig::default()
        })
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
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
        clock.on_repeated(at(400));
        assert_eq!(clock.deadline(), Some(at(400 + 600)), "twice as long");
        clock.on_progress(at(500), seq + 2, true);
        assert_eq!(clock.deadline(), Some(at(500 + 300)));
        clock.on_progress(at(600), seq + 3, false);
        assert_eq!(clock.deadline(), None, "nothing is outstanding");
    }

    /// Each answer takes more than four times as long as usual from now on.
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
                    clock.doubt(at(us));
                    clock.on_repeated(at(us));
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
        // Two answers 80 us apart, and the next as soon as a round trip.
        for (us, late) in [(110, 110 + 10 + 20), (190, 190 + 160), (200, 200 + 120)] {
            seq = seq.next();
            clock.note_pause(at(us), true);
            clock.on_progress(at(us), seq, true);
            assert_eq!(clock.deadline(), Some(at(late)), "at {us} us");
        }
        // After a retransmission, the time since the last answer says nothing about the peer.
        clock.on_repeated(at(900));
        clock.note_pause(at(1000), true);
        clock.on_progress(at(1000), seq + 1, true);
        assert_eq!(clock.deadline(), Some(at(1000 + 120)));
    }

    #[test]
    fn what_was_repeated_is_not_measured() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.distrust();
        clock.on_progress(at(1), seq + 1, true);
        assert_eq!(clock.usual, None);
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
        assert_eq!(clock.usual, Some(50_000));
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
        assert_eq!(clock.usual, Some(105_000));
        assert_eq!(clock.deviation, 47_500);
    }

    /// If the very first answer is a NAK, it belongs to the oldest outstanding packet.
    #[test]
    fn a_first_answer_is_measured_from_the_oldest_packet_outstanding() {
        let seq = Seq::initial(Psn::new(0));
        for (outstanding, usual) in [(false, 50_000), (true, 150_000)] {
            let mut clock = clock();
            clock.on_sent(at(0), seq + 1);
            clock.on_progress(at(10), seq + 1, outstanding);
            clock.on_sent(at(100), seq + 2);
            clock.on_missing(at(150), seq + 1);
            assert_eq!(clock.usual, Some(usual));
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
        assert!(!clock.excuse(at(399), false), "it is not late");
        assert!(clock.excuse(at(400), true));
        assert!(clock.excuse(at(700), false), "the first time");
        assert!(clock.excuse(at(1000), true));
        assert!(!clock.excuse(at(1300), false));
        assert!(clock.expired(at(1300)));
        clock.on_repeated(at(1300));
        clock.on_progress(at(1400), seq + 2, true);
        assert!(clock.excuse(at(1700), false), "there was progress");
    }

    #[test]
    fn only_the_first_question_since_progress_is_the_first() {
        let seq = Seq::initial(Psn::new(0));
        let mut clock = clock();
        clock.time(at(0), seq + 1);
        clock.on_progress(at(100), seq + 1, true);
        for first in [true, false] {
            assert!(clock.expired(at(100_000)));
            assert_eq!(clock.asks_first(), first);
            clock.on_repeated(at(1000));
        }
        clock.on_progress(at(200_000), seq + 2, true);
        assert!(clock.asks_first());
    }
}

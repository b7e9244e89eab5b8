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
    assert!(clock.take_learned_slack().is_some());
    clock.on_missing(at(2000), end);
    assert_eq!(clock.slack(), 17_500, "an eighth of 20 us less");
    // The loss is the network's. Other QPs learn what the hosts do.
    assert!(clock.take_learned_slack().is_none());
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

/// If the hosts pause for long, the request for an acknowledgement comes late. If the local ACK timeout
/// passed before, the requester would retransmit, or fail, although nothing was lost.
#[test]
fn a_packet_defers_its_ack_req_only_if_the_timeout_comes_long_after_the_deferral() {
    let seq = Seq::initial(Psn::new(0));
    let mut deferred = 0;
    for slack in [MIN_SLACK, 100_000, 2_560_000] {
        for value in 1..=20 {
            let config = QpConfig {
                timeout: value,
                ..QpConfig::default()
            };
            let mut clock = Clock::new(&config, Some(Slack(slack)));
            clock.time(at(0), seq + 1);
            clock.on_sent(at(0), seq + 1);
            clock.on_progress(at(10), seq + 1, false);
            let timeout = config.ack_timeout();
            if clock.may_defer_ack_req(at(10), timeout) {
                clock.on_ack_req_deferred(at(10));
                let asks = clock.deadline().expect("it runs");
                let passes = at(10) + timeout.expect("it has one");
                assert!(asks < passes, "slack {slack}, timeout {value}");
                deferred += 1;
            }
        }
    }
    assert!(deferred > 0);
}

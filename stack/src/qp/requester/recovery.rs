//! Selective retransmission, if the peer supports it.
//!
//! The specification lets a responder drop the packets behind a gap, so a requester that gets a NAK
//! goes back and retransmits everything (go-back-N). A responder may also keep them. Nothing on the
//! wire announces this, but a requester can find out: it retransmits only the missing packet, and
//! sees how far the next acknowledgement reaches.
//!
//! - It covers exactly that packet: the peer has dropped the rest. Go back.
//! - It covers everything that had been sent: the peer has kept the rest ([`Peer::Keeps`]).
//! - It is a NAK for a later gap: the peer has kept the packets before that gap
//!   ([`Peer::Keeps`]).
//! - It covers more than that packet, but not everything: the network may deliver out of order, so
//!   this shows nothing. Go back.
//!
//! So the first loss of each connection costs one round trip in which only the missing packet is
//! sent. To any responder, that looks like a short pause of its peer.

use super::Requester;
use crate::counters::Stat;
use crate::qp::Cx;
use crate::seq::Seq;

/// What the peer does with out-of-order packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Peer {
    #[default]
    Unknown,
    Keeps,
    Discards,
}

/// Why packets are retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The peer sent a NAK for them.
    Nak,
    /// Their response is late.
    Late,
    /// Everything is retransmitted, and the first packet twice.
    GoBackTwice,
    /// Their responses are missing.
    Gap,
}

/// Packets `first .. end` that are retransmitted without the packets behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    first: Seq,
    /// The next packet to send.
    next: Seq,
    end: Seq,
    /// One past the newest PSN that had been sent when the run began.
    max: Seq,
    /// The first packet is sent twice. If it were lost again, the recovery would take more than
    /// another round trip, in which the peer could execute nothing behind its gap.
    twice: bool,
    /// The packet to send after the run.
    follow_up: Option<Seq>,
    cause: Cause,
}

/// The number of apparent discards in a row after which a peer that seemed to keep out-of-order
/// packets counts as one that discards them. (A peer whose buffers are full discards some, too.)
const MAX_APPARENT_DISCARDS: u8 = 3;

/// The most responses that are requested again because they are late. If the peer is only slow, all
/// of them are duplicates.
const MAX_LATE_RESPONSES: u64 = 16;

/// The maximum number of packets in a run.
const MAX_RUN: u64 = 64;

/// What the requester has learned about the peer, and the present run.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    peer: Peer,
    apparent_discards: u8,
    run: Option<Run>,
    /// The number of packets of the next run, less one. It grows while the gap turns out to be
    /// longer than the run.
    extra: u64,
    /// The oldest packet was retransmitted because a response was late, and the response covered
    /// only this packet: perhaps everything after it was lost.
    suspicious: bool,
    /// Everything is being retransmitted because of the local ACK timeout.
    pub(super) timed_out: bool,
}

impl Recovery {
    pub(super) fn current_run(&self) -> Option<Run> {
        self.run
    }

    /// The next packet of the run, if one is left.
    pub(super) fn due(&self) -> Option<Seq> {
        let run = self.run?;
        if run.next < run.end {
            Some(run.next)
        } else {
            run.follow_up
        }
    }

    /// Whether only the run may be sent. If other packets were sent too, the next acknowledgement
    /// would not show what the peer does with out-of-order packets.
    pub(super) fn is_learning(&self) -> bool {
        self.peer == Peer::Unknown && self.run.is_some_and(|run| run.cause == Cause::Nak)
    }

    /// Whether the peer keeps out-of-order packets.
    pub(super) fn peer_keeps(&self) -> bool {
        self.peer == Peer::Keeps
    }

    /// The end of a run for missing responses: nothing behind it is requested.
    pub(super) fn gap_end(&self) -> Option<Seq> {
        let run = self.run.filter(|run| run.cause == Cause::Gap)?;
        Some(run.end)
    }

    /// One past the last response that a retransmitted READ request at `at` asks for; `None` if it
    /// asks for all the rest.
    pub(super) fn read_end(&self, at: Seq) -> Option<Seq> {
        match self.run?.cause {
            Cause::Gap => self.gap_end(),
            Cause::Late => Some(at + MAX_LATE_RESPONSES),
            Cause::Nak | Cause::GoBackTwice => None,
        }
    }

    /// Notes that `packets` packets of the run have been sent.
    pub(super) fn on_sent(&mut self, packets: u64) {
        if let Some(run) = &mut self.run {
            if run.twice {
                run.twice = false;
                return;
            }
            if run.next >= run.end {
                run.follow_up = None;
                return;
            }
            run.next = run.next + packets;
            run.end = run.end.max(run.next);
        }
    }

    pub(super) fn cancel(&mut self) {
        self.run = None;
        self.suspicious = false;
    }

    /// Notes that everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, una: Seq) {
        self.suspicious = false;
        self.timed_out = false;
        match &mut self.run {
            Some(run) if una < run.end => run.next = run.next.max(una),
            _ => self.run = None,
        }
    }
}

impl Requester {
    /// Retransmits `una`, which the peer misses; everything before it is acknowledged. `before` is
    /// the run as it was before this response arrived.
    // rule: 9.7.6.1-go-back
    pub(super) fn retransmit_missing(&mut self, cx: &mut Cx<'_>, before: Option<Run>) {
        let at = self.una;
        if let Some(run) = before.filter(|run| run.cause == Cause::Nak) {
            if at > run.end {
                self.recovery.peer = Peer::Keeps;
                self.recovery.apparent_discards = 0;
                self.recovery.extra = 0;
            } else if at == run.end {
                self.recovery.extra = (self.recovery.extra * 2 + 1).min(MAX_RUN - 1);
            }
        }
        let going_back = self.nxt < self.max;
        let alone = at.next() == self.max;
        let fetch = self.fetches.find(at).is_some();
        let go_back = match self.recovery.peer {
            Peer::Discards => true,
            Peer::Unknown => going_back || alone || fetch,
            Peer::Keeps => going_back,
        };
        if self.recovery.peer == Peer::Discards || self.recovery.peer == Peer::Unknown && go_back {
            self.send_window.on_loss();
        } else {
            self.send_window.on_selective_loss();
        }
        if go_back {
            self.go_back(at);
            if !fetch && self.recovery.peer == Peer::Discards {
                // The peer sends only one NAK for each gap. If this packet were lost again, the
                // peer would drop everything after it without another NAK.
                self.begin_run(cx, at, Cause::GoBackTwice, 0, None);
            }
            self.clock.on_missing(cx.now, at);
            return;
        }
        self.begin_run(cx, at, Cause::Nak, self.recovery.extra, None);
        self.clock.on_missing(cx.now, at);
    }

    /// Whether `una`, which the peer misses, has been retransmitted already.
    pub(super) fn is_being_retransmitted(&self, cx: &Cx<'_>) -> bool {
        // A run ends above `una`, so one that began before `una` includes it.
        let run = self.recovery.run;
        run.is_some_and(|run| run.first < self.una) || self.clock.is_stale(cx.now)
    }

    /// Learns from an acknowledgement through `at` what the peer does with out-of-order packets.
    /// `before` is the run as it was before this response arrived.
    pub(super) fn learn(&mut self, cx: &mut Cx<'_>, before: Option<Run>, at: Seq) {
        let Some(run) = before else { return };
        if matches!(run.cause, Cause::GoBackTwice | Cause::Gap) {
            return;
        }
        let nak = run.cause == Cause::Nak;
        if at >= run.end {
            self.recovery.extra = 0;
            if nak && self.recovery.peer == Peer::Unknown && at.next() < run.max {
                // The acknowledgement covers more than the run, but not everything. Perhaps the
                // network delivers out of order, so it shows nothing about the peer.
                self.go_back(self.una);
            } else if nak && self.recovery.peer != Peer::Discards {
                self.recovery.peer = Peer::Keeps;
                self.recovery.apparent_discards = 0;
            }
        } else if at.next() == run.end && run.end < run.max {
            if nak {
                self.recovery.apparent_discards += 1;
                if !self.recovery.peer_keeps()
                    || self.recovery.apparent_discards >= MAX_APPARENT_DISCARDS
                {
                    self.recovery.peer = Peer::Discards;
                    self.send_window.on_loss();
                }
                self.go_back(run.end);
                self.clock.on_retransmitted(cx.now);
            } else if self.recovery.peer_keeps() {
                self.recovery.suspicious = true;
            }
        }
    }

    /// Retransmits the newest packet, to get an acknowledgement of packets that did not ask for
    /// one. Does nothing if everything is acknowledged, or if go-back-N is under way.
    pub(super) fn ask_after_deferral(&mut self, cx: &mut Cx<'_>) {
        if self.una < self.max && self.nxt == self.max {
            self.clock.mark_ambiguous(cx.now);
            self.begin_run(cx, self.max.prev(), Cause::Late, 0, None);
        }
    }

    /// Retransmits a packet to get a response that is late.
    pub(super) fn ask_for_late_response(&mut self, cx: &mut Cx<'_>) {
        if self.una == self.max || self.retry.is_waiting_for_receiver() {
            return;
        }
        cx.nic.counters.count(Stat::LateAnswers);
        cx.observe.response_late(self.una.wire());
        if self.misses_responses() {
            self.clock.mark_ambiguous(cx.now);
            self.ask_for_missing(cx);
        } else if self.recovery.peer_keeps() {
            self.ask_keeping_peer(cx);
        } else {
            self.ask_other_peer(cx);
        }
    }

    /// Gets a late response from a peer that keeps out-of-order packets. The first attempt
    /// retransmits the newest packet: the peer then acknowledges everything or sends a NAK. If
    /// there is no response, the peer has already sent its only NAK for the gap, or is dead. The
    /// next attempt retransmits the oldest packet. If the acknowledgement covers only that packet,
    /// the rest was lost, too.
    fn ask_keeping_peer(&mut self, cx: &mut Cx<'_>) {
        if self.recovery.suspicious {
            self.go_back(self.una);
            self.clock.on_retransmitted(cx.now);
        } else {
            self.clock.mark_ambiguous(cx.now);
            let newest = self.max.prev();
            let known = self.recovery.run.is_some_and(|run| run.cause == Cause::Nak);
            let all_sent = self.nxt == self.max && self.fetches.find(newest).is_none();
            let first = if all_sent && !known && self.clock.is_first_late_retransmission() {
                newest
            } else {
                self.una
            };
            self.clock.note_late_copies(1);
            self.begin_run(cx, first, Cause::Late, 0, None);
        }
    }

    /// Gets a late response from any other peer, by retransmitting the oldest packet and the
    /// newest. Whatever was lost, the peer now reports what it misses, or that it misses nothing:
    ///
    /// - It has everything: it acknowledges everything, in response to either packet.
    /// - It misses the oldest, and its NAK was lost: now it has the oldest, and sends a NAK because
    ///   the newest is out of order.
    /// - It misses a packet behind the oldest: it sends a NAK for the same reason.
    ///
    /// If the peer is only slow, this costs it two extra packets, and causes no other
    /// retransmission.
    fn ask_other_peer(&mut self, cx: &mut Cx<'_>) {
        self.clock.mark_ambiguous(cx.now);
        let newest = self.nxt.prev();
        let follow_up = newest > self.una && self.fetches.find(newest).is_none();
        self.clock.note_late_copies(1 + u32::from(follow_up));
        self.begin_run(cx, self.una, Cause::Late, 0, follow_up.then_some(newest));
    }

    /// Requests the responses `una .. end` again.
    pub(super) fn begin_gap(&mut self, cx: &mut Cx<'_>, end: Seq) {
        self.begin_run(cx, self.una, Cause::Gap, 0, None);
        if let Some(run) = &mut self.recovery.run {
            run.end = end;
        }
    }

    fn begin_run(
        &mut self,
        cx: &mut Cx<'_>,
        first: Seq,
        cause: Cause,
        extra: u64,
        follow_up: Option<Seq>,
    ) {
        self.recovery.run = Some(Run {
            first,
            next: first,
            end: (first + (1 + extra)).min(self.max),
            max: self.max,
            follow_up,
            cause,
            twice: self.recovery.peer_keeps() && cause == Cause::Nak,
        });
        self.clock.on_retransmitted(cx.now);
    }
}

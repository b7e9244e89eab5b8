//! Sending again only what is missing, where the peer allows it.
//!
//! The specification lets a responder drop what comes behind a gap, so a requester that
//! is told of one goes back and sends everything again (go-back-N). A responder may as
//! well keep it; nothing on the wire says so, but one can find out: send only the missing
//! packet again, and look how far the answer reaches.
//!
//! - It acknowledges exactly that packet: the peer has dropped the rest. Go back.
//! - It acknowledges more than was sent again: the peer has kept the rest ([`Peer::Holds`]).
//!
//! So each connection begins with one round trip in which nothing but the first missing
//! packet is sent. Any responder takes that for a short pause of its peer.

use super::Requester;
use crate::counters::Stat;
use crate::qp::Cx;
use crate::seq::Seq;

/// What the peer does with packets that come early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Peer {
    #[default]
    Unknown,
    Holds,
    Discards,
}

/// Why packets are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The peer said that they are missing.
    Nak,
    /// Its answer is late.
    Late,
    /// Everything is sent again, and the first of it is sent once more than that.
    Copy,
    /// Their responses are missing.
    Gap,
}

/// Packets `first .. end` that are repeated without what follows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    first: Seq,
    /// The next of them to send.
    next: Seq,
    end: Seq,
    /// One past what had been sent when it began.
    max: Seq,
    /// The first of them is sent once more: should it be lost again, that would cost
    /// a round trip and more, in which nothing before the peer's gap can be executed.
    twice: bool,
    /// What else to send once they have been sent.
    also: Option<Seq>,
    cause: Cause,
}

/// A peer that was taken for one that holds has dropped packets so often in a row when
/// it is taken for one that doesn't. (One whose buffers are full drops some, too.)
const MAX_STRIKES: u8 = 3;

/// The longest run.
const MAX_RUN: u64 = 64;

/// What is known of the peer and repeated now.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    peer: Peer,
    strikes: u8,
    run: Option<Run>,
    /// How many packets the next run has, less one: more and more while the gap turns
    /// out to be longer than the run.
    extra: u64,
    /// The last answer, to a question after a late one, acknowledged nothing but the
    /// packet that asked.
    suspicious: bool,
    /// Everything is being sent again because of the local ACK timeout.
    pub(super) timed_out: bool,
}

impl Recovery {
    pub(super) fn run(&self) -> Option<Run> {
        self.run
    }

    /// The next packet of the run, if there is one left.
    pub(super) fn due(&self) -> Option<Seq> {
        let run = self.run?;
        if run.next < run.end {
            Some(run.next)
        } else {
            run.also
        }
    }

    /// Whether nothing else may be sent, lest the answer say nothing of the peer.
    pub(super) fn is_learning(&self) -> bool {
        self.peer == Peer::Unknown && self.run.is_some_and(|run| run.cause == Cause::Nak)
    }

    /// Whether the peer keeps what comes early.
    pub(super) fn holds(&self) -> bool {
        self.peer == Peer::Holds
    }

    /// Where the run ends, if responses are missing: nothing behind that is asked for.
    pub(super) fn gap_end(&self) -> Option<Seq> {
        let run = self.run.filter(|run| run.cause == Cause::Gap)?;
        Some(run.end)
    }

    /// So many packets of the run have been sent.
    pub(super) fn on_sent(&mut self, packets: u64) {
        if let Some(run) = &mut self.run {
            if run.twice {
                run.twice = false;
                return;
            }
            if run.next >= run.end {
                run.also = None;
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

    /// Everything before `una` is acknowledged.
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
    /// The peer misses `una`, and everything before it is acknowledged. `before` is the
    /// run as it was before this answer.
    // rule: 9.7.6.1-go-back
    pub(super) fn repeat_missing(&mut self, cx: &mut Cx<'_>, before: Option<Run>) {
        let at = self.una;
        if let Some(run) = before.filter(|run| run.cause == Cause::Nak) {
            if at > run.end {
                self.recovery.peer = Peer::Holds;
                self.recovery.strikes = 0;
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
            Peer::Holds => going_back,
        };
        if self.recovery.peer == Peer::Discards || self.recovery.peer == Peer::Unknown && go_back {
            self.window.on_loss();
        } else {
            self.window.on_repeat();
        }
        if go_back {
            self.go_back(at);
            if !fetch && self.recovery.peer == Peer::Discards {
                // Lost again, it would cost all that follows it, and the peer would
                // not say so: it has said it already.
                self.begin_run(cx, at, Cause::Copy, 0, None);
            }
            self.clock.on_missing(cx.now, at);
            return;
        }
        self.begin_run(cx, at, Cause::Nak, self.recovery.extra, None);
        self.clock.on_missing(cx.now, at);
    }

    /// Whether `una`, which the peer misses, is on its way again.
    pub(super) fn is_repeating(&self, cx: &Cx<'_>) -> bool {
        // A run ends behind `una`, or it is over.
        let run = self.recovery.run;
        run.is_some_and(|run| run.first < self.una) || self.clock.is_stale(cx.now)
    }

    /// An acknowledgement through `at` has come. `before` is the run as it was before.
    pub(super) fn learn(&mut self, cx: &mut Cx<'_>, before: Option<Run>, at: Seq) {
        let Some(run) = before else { return };
        if matches!(run.cause, Cause::Copy | Cause::Gap) {
            return;
        }
        let nak = run.cause == Cause::Nak;
        if at >= run.end {
            self.recovery.extra = 0;
            if nak && self.recovery.peer == Peer::Unknown && at.next() < run.max {
                // Perhaps the network delivers out of order: that says nothing.
                self.go_back(self.una);
            } else if nak && self.recovery.peer != Peer::Discards {
                self.recovery.peer = Peer::Holds;
                self.recovery.strikes = 0;
            }
        } else if at.next() == run.end && run.end < run.max {
            if nak {
                self.recovery.strikes += 1;
                if !self.recovery.holds() || self.recovery.strikes >= MAX_STRIKES {
                    self.recovery.peer = Peer::Discards;
                    self.window.on_loss();
                }
                self.go_back(run.end);
                self.clock.on_repeated(cx.now);
            } else if self.recovery.holds() {
                self.recovery.suspicious = true;
            }
        }
    }

    /// What is outstanding was spared from asking, and nothing has followed that asks: asks
    /// by repeating the newest packet.
    pub(super) fn ask_at_last(&mut self, cx: &mut Cx<'_>) {
        if self.una < self.max && self.nxt == self.max {
            self.clock.distrust();
            self.begin_run(cx, self.max.prev(), Cause::Late, 0, None);
        }
    }

    /// The answer is late: asks once more.
    pub(super) fn ask_again(&mut self, cx: &mut Cx<'_>) {
        if self.una == self.max || self.retry.is_waiting_for_receiver() {
            return;
        }
        cx.counters.count(Stat::LateAnswers);
        if self.misses_responses() {
            self.clock.distrust();
            self.ask_for_missing(cx);
        } else if self.recovery.holds() {
            self.ask_holder(cx);
        } else {
            self.ask_any(cx);
        }
    }

    /// Asks a peer that keeps what comes early, at first by repeating the newest packet,
    /// which lets the peer acknowledge everything or say what it misses. If it stays silent,
    /// it has said so before, or is gone: then by repeating the oldest. If that is answered
    /// for nothing but itself, the rest is lost, too.
    fn ask_holder(&mut self, cx: &mut Cx<'_>) {
        if self.recovery.suspicious {
            self.go_back(self.una);
            self.clock.on_repeated(cx.now);
        } else {
            self.clock.distrust();
            let newest = self.max.prev();
            let known = self.recovery.run.is_some_and(|run| run.cause == Cause::Nak);
            let all_sent = self.nxt == self.max && self.fetches.find(newest).is_none();
            let first = if all_sent && !known && self.clock.asks_first() {
                newest
            } else {
                self.una
            };
            self.begin_run(cx, first, Cause::Late, 0, None);
        }
    }

    /// Asks any other peer, by repeating the oldest packet and the newest. Whatever was lost,
    /// the peer says what it misses now, or that it misses nothing:
    ///
    /// - It has everything: it acknowledges that, for either.
    /// - It misses the oldest, and has said so in vain: now it has it, and says of the newest
    ///   that it comes too early.
    /// - It misses something behind the oldest: the same.
    ///
    /// Should it only be slow, it has two packets too many to look at, and nothing is sent
    /// again for that.
    fn ask_any(&mut self, cx: &mut Cx<'_>) {
        self.clock.distrust();
        let newest = self.nxt.prev();
        let also = newest > self.una && self.fetches.find(newest).is_none();
        self.begin_run(cx, self.una, Cause::Late, 0, also.then_some(newest));
    }

    /// Asks again for the responses from `una` to before `end`.
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
        also: Option<Seq>,
    ) {
        self.recovery.run = Some(Run {
            first,
            next: first,
            end: (first + (1 + extra)).min(self.max),
            max: self.max,
            also,
            cause,
            twice: self.recovery.holds() && cause == Cause::Nak,
        });
        self.clock.on_repeated(cx.now);
    }
}

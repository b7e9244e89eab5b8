//! Responses that came before their turn: kept, and taken once what is missing before them
//! has come, as if they came only then. Memory and completions see nothing of them sooner.
//!
//! A response, or an acknowledgement, with a later PSN than the one due says that the
//! response due was lost (IBTA 1.7, 9.7.5.2.4). Only what is missing is asked for again:
//! a READ may be repeated from any of its PSNs on, and in part (9.7.5.1.3). Gaps are closed
//! one after the other, from the oldest on, since there are responders that answer no part
//! that lies before one which they have repeated (Soft-RoCE is one).

use super::Requester;
use crate::counters::{DropReason, Stat};
use crate::qp::early::{Chain, Kept};
use crate::qp::{Core, Cx, Fault};
use crate::seq::Seq;
use crate::wr::WcStatus;
use roce_wire::Packet;

/// What came early, and what is known to be missing.
#[derive(Debug, Default)]
pub(super) struct EarlyResponses {
    chain: Chain,
    /// One past the newest PSN that the peer is known to have executed, while responses
    /// before it are missing.
    reached: Option<Seq>,
    /// What was asked for again last.
    asked: Option<Asked>,
    /// A request that the peer misses, as a NAK said; responses before it are missing, too,
    /// and come first.
    nak: Option<Seq>,
}

/// Responses `missing .. end` were asked for again.
///
/// What comes after that may still be from before, in whatever order the network delivers
/// it, or was on its way. It shows that the missing response was lost once more if it was
/// asked for later, or for the same time (and no later than what showed that before).
/// Acknowledgements show nothing by the latter: a peer may send one for each duplicate that
/// it gets (Soft-RoCE does), all with the PSN of its newest.
#[derive(Clone, Copy, Debug)]
struct Asked {
    missing: Seq,
    end: Seq,
    /// One past what had been sent by then.
    max: Seq,
    /// What showed that they are missing.
    witness: Seq,
}

/// What shows that a response is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A positive acknowledgement, perhaps one of many, or a NAK.
    Ack,
    /// A response, which is kept.
    Kept,
    /// A response, for which there is no room.
    Dropped,
}

impl EarlyResponses {
    /// Forgets everything but what was kept.
    pub(super) fn clear(&mut self) {
        self.reached = None;
        self.forget_asked();
        self.nak = None;
    }

    /// After a timeout, any sign of a gap is news.
    pub(super) fn forget_asked(&mut self) {
        self.asked = None;
    }

    /// Everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, una: Seq) {
        self.reached = self.reached.filter(|reached| *reached > una);
        self.nak = self.nak.filter(|nak| *nak >= una);
    }

    /// The peer misses the request at `at`.
    pub(super) fn note_nak(&mut self, at: Seq) {
        self.nak = Some(at);
    }

    fn reach(&mut self, end: Seq) {
        self.reached = self.reached.max(Some(end));
    }

    /// Whether what came at `at` says anything new of the response at `missing`.
    fn is_news(&self, missing: Seq, at: Seq, from: Evidence) -> bool {
        let Some(asked) = self.asked.filter(|asked| missing < asked.end) else {
            return true;
        };
        let again = missing != asked.missing || at <= asked.witness;
        at >= asked.max || from != Evidence::Ack && at < asked.end && again
    }
}

impl Requester {
    /// Keeps a response that came at `at`, while that at `una` is missing.
    pub(super) fn receive_early(
        &mut self,
        cx: &mut Cx<'_>,
        at: Seq,
        packet: &Packet<'_>,
    ) -> Result<(), Fault> {
        let kept = cx.early.keep(&mut self.early.chain, self.una, at, packet);
        match kept {
            Kept::New => cx.counters.count(Stat::EarlyKept),
            Kept::Already => cx.counters.drop(DropReason::DuplicateEarly),
            // rule: 9.7.6.1-response-gap
            Kept::No => cx.counters.drop(DropReason::ResponseGap),
        }
        let from = match kept {
            Kept::No => Evidence::Dropped,
            Kept::New | Kept::Already => Evidence::Kept,
        };
        self.implied_nak(cx, at, from)
    }

    /// Takes what was kept, up to what is missing next, and asks for that.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), Fault> {
        loop {
            if let Some(reached) = self.early.reached {
                let open = self.fetches.first_open();
                self.advance(cx, core, open.unwrap_or(reached).min(reached))?;
            }
            // What is kept belongs to an open request, so `una` does not pass it otherwise.
            if cx.early.first(&self.early.chain) != Some(self.una) {
                break;
            }
            let Some(early) = cx.early.take(&mut self.early.chain) else {
                break;
            };
            let result = self.place_response(cx, core, &early.packet(), self.una);
            cx.early.give_back(early);
            result?;
        }
        if let Some(reached) = self.early.reached {
            // What is asked for already is under way.
            let known = self.early.asked.is_some_and(|asked| self.una < asked.end);
            if !known {
                self.implied_nak(cx, reached.prev(), Evidence::Kept)?;
            }
        } else if self.early.nak == Some(self.una) {
            self.early.nak = None;
            self.repeat_missing(cx, None);
        }
        Ok(())
    }

    /// What came with PSN `at` shows that the response at `una` was lost.
    // rule: 9.7.6.1-implied-nak
    pub(super) fn implied_nak(
        &mut self,
        cx: &mut Cx<'_>,
        at: Seq,
        from: Evidence,
    ) -> Result<(), Fault> {
        let missing = self.una;
        self.early.reach(at.next());
        if !self.early.is_news(missing, at, from) {
            return Ok(());
        }
        cx.counters.count(Stat::ImpliedNaks);
        let again = self
            .early
            .asked
            .is_some_and(|asked| asked.missing == missing);
        // What is asked for once more is no retry of its own: if nothing comes of that, the
        // local ACK timeout counts.
        if !again && !self.retry.try_again(cx.now) {
            return Err(Fault::Send(WcStatus::RetryExceeded));
        }
        let mut asked = Asked {
            missing,
            end: at.next(),
            max: self.max,
            witness: at,
        };
        if from == Evidence::Dropped && cx.early.first(&self.early.chain).is_none() {
            // Nothing of what follows is kept.
            self.window.on_loss();
            self.go_back(missing);
        } else {
            asked.end = self.ask_for_missing(cx);
            self.window.on_repeat();
            self.clock.on_missing(cx.now, missing);
        }
        self.early.asked = Some(asked);
        Ok(())
    }

    /// Whether responses are known to be missing.
    pub(super) fn misses_responses(&self) -> bool {
        self.early.reached.is_some() && self.fetches.first_open() == Some(self.una)
    }

    /// Asks again for the oldest responses that are missing, and gives where they end.
    pub(super) fn ask_for_missing(&mut self, cx: &mut Cx<'_>) -> Seq {
        let reached = self.early.reached.unwrap_or(self.una.next());
        let kept = cx.early.first(&self.early.chain).unwrap_or(reached);
        let end = kept.min(reached).min(self.max);
        self.begin_gap(cx, end);
        end
    }

    /// Drops everything that was kept.
    pub(crate) fn release_early(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..cx.early.release(&mut self.early.chain) {
            cx.counters.drop(DropReason::ResponseGap);
        }
    }
}

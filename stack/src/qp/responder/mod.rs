//! The responder: turns requests on the wire into memory accesses, receive completions and replies
//! (IBTA 1.7, 9.7.4).
//!
//! It keeps one number, `epsn`, the expected PSN. A packet is the expected one, a duplicate (before
//! `epsn`) or behind a gap (after it):
//!
//! ```text
//!      duplicates        epsn        gap
//!  ◄───────────────────────┼──────────────────────►
//!  answered from state     │ executed   NAK, once; kept for later
//! ```
//!
//! Each file beside this one is one task of a responder: [`request`] decides which of the three a
//! packet is, [`out_of_order`] keeps what is behind a gap, [`message`] executes SEND and WRITE,
//! [`fetch`] executes READ and atomics and notes them for duplicates, [`memory_placement`] executes
//! FLUSH and ATOMIC WRITE, [`persist`] waits for durable memory, [`denial`] answers what can't be executed, [`reply_queue`] orders the
//! replies, [`reply`] sends them.

mod cause;
mod denial;
mod fetch;
mod memory_placement;
mod message;
mod out_of_order;
mod persist;
mod reply;
mod reply_queue;
mod request;

use super::arrivals::{self, Arrival};
use super::attr::QpConfig;
use super::inbound::Inbound;
use super::reorder::ReorderQueue;
use super::suspicion::Suspicion;
use super::{Core, Cx, QpFailure, Receives};
use crate::seq::Seq;
use crate::wr::{PostError, RecvRequest, WcStatus};
use denial::{Denial, Refusal};
use fetch::Resources;
use persist::Persisting;
use reply_queue::ReplyQueue;
use roce_wire::{Credits, Psn};

/// The receiving half of a QP.
#[derive(Debug)]
pub(crate) struct Responder {
    pub(crate) rq: Receives,
    epsn: Seq,
    /// The initial value of `epsn`.
    first: Seq,
    /// Messages completed, modulo 2^24 (IBTA 1.7, 9.7.7.1).
    msn: u32,
    /// The message in progress: some of its packets have arrived, but not all.
    inbound: Option<Inbound>,
    /// A NAK for `epsn` was queued or sent. The responder sends no other NAK until that packet
    /// arrives (9.7.5.2.8, 9.7.5.1.3).
    nak_sent: bool,
    /// That NAK was an RNR NAK.
    not_ready: bool,
    /// The kept out-of-order requests.
    out_of_order: ReorderQueue,
    /// The PSN for which the NAK was sent twice.
    nak_repeated_for: Option<Seq>,
    /// The FLUSH at `epsn`, while it waits until its memory is durable.
    persisting: Option<Persisting>,
    resources: Resources,
    replies: ReplyQueue,
    /// The peer was last sent 0 credits, or an RNR NAK: it waits for news.
    peer_out_of_credits: bool,
    suspicion: Suspicion,
}

impl Responder {
    pub(crate) fn new(rq: Receives) -> Self {
        Self {
            rq,
            epsn: Seq::initial(Psn::new(0)),
            first: Seq::initial(Psn::new(0)),
            msn: 0,
            inbound: None,
            nak_sent: false,
            not_ready: false,
            out_of_order: ReorderQueue::default(),
            nak_repeated_for: None,
            persisting: None,
            resources: Resources::default(),
            replies: ReplyQueue::default(),
            peer_out_of_credits: false,
            suspicion: Suspicion::default(),
        }
    }

    /// The expected PSN.
    pub(crate) fn expected_psn(&self) -> Psn {
        self.epsn.wire()
    }

    /// Init to RTR. Receives that were posted in Init stay.
    pub(crate) fn start(&mut self, config: &QpConfig) {
        self.abandon();
        // rule: 9.7.4.1.1-initial
        self.epsn = Seq::initial(config.rq_psn);
        self.first = self.epsn;
        self.suspicion = Suspicion::default();
        // rule: 9.7.7.1-msn-start
        self.msn = 0;
        self.resources = Resources::new(config.max_dest_rd_atomic);
        self.replies = ReplyQueue::new(config.max_dest_rd_atomic);
    }

    /// Applies attributes that were changed in SQD.
    pub(crate) fn reconfigure(&mut self, config: &QpConfig) {
        self.resources.set_max(config.max_dest_rd_atomic);
        self.replies.set_max(config.max_dest_rd_atomic);
    }

    /// Forgets everything but the posted receives.
    pub(crate) fn reset(&mut self) {
        self.replies = ReplyQueue::default();
        self.abandon();
    }

    /// Discards the state of the message in progress and of executed requests. Replies that are
    /// queued may still be sent.
    pub(crate) fn abandon(&mut self) {
        self.inbound = None;
        self.nak_sent = false;
        self.not_ready = false;
        self.nak_repeated_for = None;
        self.peer_out_of_credits = false;
        self.persisting = None;
        self.resources = Resources::default();
    }

    /// Appends a request to the receive queue.
    pub(crate) fn post(&mut self, wr: &RecvRequest<'_>) -> Result<(), PostError> {
        self.rq.post(wr)?;
        // An unsolicited acknowledgement gives the peer its credits before it would probe for them
        // (9.7.7.2).
        // rule: 9.7.7.2-unsolicited
        if self.peer_out_of_credits && self.epsn > self.first {
            self.replies.acknowledge();
        }
        self.peer_out_of_credits = false;
        Ok(())
    }

    /// Completes the oldest receive. `Ok(false)` if there is none.
    fn complete_receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
        arrival: Arrival,
    ) -> Result<bool, QpFailure> {
        arrivals::complete(&mut self.rq, cx, core, status, arrival)
    }

    /// The credits of the peer: the posted receives, less the one in use. The receives of an SRQ
    /// don't count (IBTA 1.7, 9.7.7.2).
    // rule: 9.7.7.2-credits-told
    fn credits(&self) -> Credits {
        if self.rq.are_shared() {
            // rule: 10.2.9-srq-credits
            return Credits::INVALID;
        }
        let in_use = self.inbound.as_ref().is_some_and(Inbound::holds_receive);
        // rule: 9.7.7.2-credits-in-use
        let left = self.rq.len().saturating_sub(usize::from(in_use));
        Credits::from_count(u32::try_from(left).unwrap_or(u32::MAX))
    }

    // rule: 9.7.7.1-msn
    fn count_message(&mut self) {
        // rule: 9.3.5-msn-24-bits
        self.msn = (self.msn + 1) & 0xff_ffff;
    }
}

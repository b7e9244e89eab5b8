//! The queue of packets to the peer: replies to READs and atomics in the order of their PSNs, then
//! an acknowledgement or a NAK.

use super::Refusal;
use crate::memory::PdId;
use crate::seq::Seq;
use roce_wire::Reth;
use std::collections::VecDeque;

/// A reply other than a plain acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// The responses `at .. end` of a READ in domain `pd`, of which `offset` bytes have been sent.
    Read {
        at: Seq,
        end: Seq,
        pd: PdId,
        reth: Reth,
        offset: u32,
        msn: u32,
    },
    /// The response to an atomic.
    Atomic { at: Seq, original: u64, msn: u32 },
}

impl Reply {
    /// The PSN of the next packet.
    pub(super) fn first(&self) -> Seq {
        match *self {
            Self::Read { at, .. } | Self::Atomic { at, .. } => at,
        }
    }

    /// One past the PSN of the last packet.
    fn end(&self) -> Seq {
        match *self {
            Self::Read { end, .. } => end,
            Self::Atomic { at, .. } => at.next(),
        }
    }
}

/// A reply that has not been sent completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingReply {
    pub(super) reply: Reply,
    /// It answers a duplicate.
    again: bool,
    /// No complete reply to the request has been sent yet.
    pub(super) unanswered: bool,
}

/// A negative acknowledgement, which is sent last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nak {
    pub(super) at: Seq,
    pub(super) kind: NakKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NakKind {
    Sequence,
    NotReady,
    Refusal(Refusal),
}

/// The replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    /// In the order of their PSNs, at most `max`.
    pub(super) queue: VecDeque<PendingReply>,
    max: usize,
    pub(super) ack: bool,
    pub(super) nak: Option<Nak>,
}

impl ReplyQueue {
    pub(super) fn new(max: u8) -> Self {
        Self {
            queue: VecDeque::new(),
            max: usize::from(max),
            ack: false,
            nak: None,
        }
    }

    /// Changes the number of READs and atomics that the peer may have outstanding.
    pub(super) fn set_max(&mut self, max: u8) {
        self.max = usize::from(max);
    }

    /// The next reply to send.
    pub(super) fn front_mut(&mut self) -> Option<&mut Reply> {
        self.queue.front_mut().map(|pending| &mut pending.reply)
    }

    /// Whether there is room for the reply to a new request. False if the peer has more READs and
    /// atomics outstanding than it may.
    // rule: 9.7.4.1-resources
    pub(super) fn has_room(&self) -> bool {
        // rule: 9.7.4.1-no-resources
        self.queue.len() < self.max || self.has_straggler()
    }

    /// Whether the oldest of `max` replies answers a duplicate. A peer that keeps to its limit
    /// sends another request only when it no longer waits for the oldest reply, so it does not need
    /// that reply any more.
    fn has_straggler(&self) -> bool {
        self.queue.front().is_some_and(|pending| pending.again)
    }

    /// Drops the straggler, if another reply needs its place.
    fn make_room(&mut self) {
        if self.queue.len() >= self.max {
            self.queue.pop_front();
        }
    }

    /// Queues the reply to a new request, for which there is room. It acknowledges
    /// everything before it.
    pub(super) fn push(&mut self, reply: Reply) {
        self.make_room();
        self.queue.push_back(PendingReply {
            reply,
            again: false,
            unanswered: true,
        });
        // rule: 9.7.5.1.2-response-acks
        self.ack = false;
    }

    /// Queues the reply to a duplicate in the order of PSNs. It replaces the queued replies that it
    /// covers. A duplicate of a READ can ask for a part of its responses: a queued reply that covers
    /// more stays, since the peer still waits for the rest. Returns false if the queue is full, and
    /// either the duplicate is older than all queued replies, or the oldest of them answers no
    /// duplicate.
    pub(super) fn repeat(&mut self, reply: Reply) -> bool {
        let (first, end) = (reply.first(), reply.end());
        let is_sent_anyway = |queued: &Reply| {
            let (from, to) = (queued.first(), queued.end());
            from <= first && end <= to && (from, to) != (first, end)
        };
        if self
            .queue
            .iter()
            .any(|pending| is_sent_anyway(&pending.reply))
        {
            return true;
        }
        let mut unanswered = false;
        self.queue.retain(|pending| {
            let is_covered = first <= pending.reply.first() && pending.reply.end() <= end;
            unanswered |= is_covered && pending.unanswered;
            !is_covered
        });
        let oldest = self.queue.front().map(|pending| pending.reply.first());
        if self.queue.len() >= self.max
            && (oldest.is_none_or(|oldest| first < oldest) || !self.has_straggler())
        {
            return false;
        }
        self.make_room();
        // rule: 9.7.5.1-order
        let index = self
            .queue
            .partition_point(|pending| pending.reply.first() < first);
        let pending = PendingReply {
            reply,
            again: true,
            unanswered,
        };
        self.queue.insert(index, pending);
        true
    }

    /// Queues an acknowledgement of everything executed so far.
    // rule: 9.7.5.1.2-coalesced
    pub(super) fn acknowledge(&mut self) {
        self.ack = true;
    }

    pub(super) fn sequence_nak(&mut self, at: Seq) {
        self.nak = Some(Nak {
            at,
            kind: NakKind::Sequence,
        });
    }

    // rule: 9.9.3-retryable-stays
    pub(super) fn receiver_not_ready(&mut self, at: Seq) {
        self.nak = Some(Nak {
            at,
            kind: NakKind::NotReady,
        });
    }

    pub(super) fn nak(&mut self, at: Seq, refusal: Refusal) {
        self.nak = Some(Nak {
            at,
            kind: NakKind::Refusal(refusal),
        });
    }

    /// Drops a NAK that has not been sent, since the packet that it asked for has arrived.
    pub(super) fn withdraw_nak(&mut self) {
        self.nak = None;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.ack && self.nak.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::Psn;

    /// The answer to an atomic `n` packets after the first.
    fn atomic(n: u64) -> Reply {
        Reply::Atomic {
            at: Seq::initial(Psn::new(100)) + n,
            original: 0,
            msn: 0,
        }
    }

    /// The responses `from .. to` of a READ, counted from the first packet.
    fn read(from: u64, to: u64) -> Reply {
        let first = Seq::initial(Psn::new(100));
        Reply::Read {
            at: first + from,
            end: first + to,
            pd: PdId(0),
            reth: Reth {
                va: 0,
                rkey: 0,
                dma_len: 0,
            },
            offset: 0,
            msn: 0,
        }
    }

    fn places(replies: &ReplyQueue) -> Vec<u64> {
        let first = Seq::initial(Psn::new(100));
        let places = replies
            .queue
            .iter()
            .map(|pending| pending.reply.first() - first);
        places.collect()
    }

    #[test]
    fn what_is_asked_for_again_goes_to_its_place() {
        let mut replies = ReplyQueue::new(3);
        replies.push(atomic(1));
        replies.push(atomic(5));
        assert!(replies.repeat(atomic(3)));
        assert_eq!(places(&replies), [1, 3, 5]);
        // It replaces the reply that is queued already.
        assert!(replies.repeat(atomic(1)));
        assert_eq!(places(&replies), [1, 3, 5]);
    }

    #[test]
    fn a_duplicate_of_what_nobody_waits_for_is_dropped() {
        let mut replies = ReplyQueue::new(2);
        replies.push(atomic(4));
        replies.push(atomic(5));
        assert!(!replies.repeat(atomic(3)), "older than all");
        assert!(!replies.repeat(atomic(6)), "the oldest is no straggler");
        assert_eq!(places(&replies), [4, 5]);
    }

    #[test]
    fn a_straggler_makes_room_for_what_is_younger() {
        let mut replies = ReplyQueue::new(2);
        assert!(replies.repeat(atomic(1)));
        replies.push(atomic(5));
        assert!(!replies.repeat(atomic(0)));
        assert_eq!(places(&replies), [1, 5]);
        assert!(replies.repeat(atomic(3)));
        assert_eq!(places(&replies), [3, 5]);
    }

    #[test]
    fn a_duplicate_of_a_part_leaves_the_rest_of_a_read_queued() {
        let mut replies = ReplyQueue::new(2);
        replies.push(read(0, 8));
        assert!(replies.repeat(read(0, 4)));
        assert!(replies.repeat(read(2, 4)));
        assert_eq!(places(&replies), [0], "the queued reply includes it");
        assert!(replies.repeat(read(4, 8)));
        assert_eq!(places(&replies), [0], "so it does at its end");
        // Six responses have been sent. The peer requests three of them again, and one of the others.
        *replies.front_mut().expect("it is queued") = read(6, 8);
        assert!(replies.repeat(read(3, 7)));
        assert_eq!(places(&replies), [3, 6]);
        // Responses requested before that are no part of the newer duplicate stay, too.
        assert!(replies.repeat(read(5, 8)));
        assert_eq!(places(&replies), [3, 5]);
        // The newer duplicate asks for everything.
        assert!(replies.repeat(read(0, 8)));
        assert_eq!(places(&replies), [0]);
    }

    #[test]
    fn a_request_stays_unanswered_until_its_answer_has_been_sent() {
        let unanswered = |replies: &ReplyQueue| {
            let all = replies.queue.iter().map(|pending| pending.unanswered);
            all.collect::<Vec<_>>()
        };
        let mut replies = ReplyQueue::new(4);
        replies.push(atomic(1));
        assert!(replies.repeat(atomic(3)));
        assert!(replies.repeat(atomic(3)));
        assert_eq!(unanswered(&replies), [true, false]);
        assert!(replies.repeat(atomic(1)));
        assert_eq!(unanswered(&replies), [true, false]);
    }
}

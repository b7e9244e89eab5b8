//! The receiving half of a stream: tracks what the peer has written, what the program has read, and
//! what to grant the peer. No I/O.
//!
//! The receive buffer is a ring of two halves. The peer is offered whole halves, at most two at a time,
//! and fills one before it uses the next. Once the program has read a half's worth of bytes, that half
//! is offered again.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The length of each half in bytes.
    half: usize,
    /// Maximum number of data messages that the program has not read.
    credits: u16,
    /// The next byte for the program, as an offset in the ring.
    next: usize,
    /// The unread bytes of each message.
    messages: VecDeque<usize>,
    /// The sum of `messages`.
    unread: usize,
    /// Bytes that were offered and not announced yet.
    offered: usize,
    /// Free bytes that are not offered.
    free: usize,
    /// The half to offer next, as an offset in the ring.
    next_offer: usize,
    /// The number of messages that the program has read, modulo 2^16.
    taken: u16,
    /// The value of `taken` from which credits are granted even without a free half.
    grant_at: u16,
}

/// Credits and room to grant to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The total number of messages that it may send, modulo 2^16.
    pub(crate) credits: u16,
    /// A further stretch of the ring.
    pub(crate) room: Option<Range<usize>>,
}

/// The peer has announced more than it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// Too many bytes.
    Bytes { announced: usize, offered: usize },
    /// Too many messages.
    Messages { credits: u16 },
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { announced, offered } => write!(
                f,
                "the peer announced {announced} bytes, but had room for {offered}"
            ),
            Self::Messages { credits } => {
                write!(f, "the peer sent more messages than its {credits} credits")
            }
        }
    }
}

impl Inbox {
    /// A ring of `2 * half` bytes. The private data have offered the first half and granted `credits`.
    pub(crate) fn new(half: usize, credits: u16) -> Self {
        Self {
            half,
            credits,
            next: 0,
            messages: VecDeque::new(),
            unread: 0,
            offered: half,
            free: half,
            next_offer: half,
            taken: 0,
            grant_at: credits / 2,
        }
    }

    /// The number of unread bytes.
    pub(crate) fn unread(&self) -> usize {
        self.unread
    }

    /// Handles a message that announces `len` bytes.
    ///
    /// # Errors
    /// If they exceed what was offered. The connection must end.
    pub(crate) fn announce(&mut self, len: usize) -> Result<(), Overrun> {
        if len > self.offered {
            let offered = self.offered;
            let announced = len;
            return Err(Overrun::Bytes { announced, offered });
        }
        if self.messages.len() >= usize::from(self.credits) {
            let credits = self.credits;
            return Err(Overrun::Messages { credits });
        }
        self.offered -= len;
        self.unread += len;
        self.messages.push_back(len);
        self.retire();
        Ok(())
    }

    /// Counts a message that used a credit and carries nothing for the program.
    pub(crate) fn count_message(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// The stretches of the ring with the next unread bytes: at most `len`, past the first `skip`.
    pub(crate) fn stretches(&self, skip: usize, len: usize) -> [Range<usize>; 2] {
        let len = len.min(self.unread.saturating_sub(skip));
        let size = 2 * self.half;
        let start = (self.next + skip) % size;
        let first = len.min(size - start);
        [start..start + first, 0..len - first]
    }

    /// Removes the next `len` bytes, which the program has read.
    pub(crate) fn take(&mut self, len: usize) {
        debug_assert!(len <= self.unread);
        self.next = (self.next + len) % (2 * self.half);
        self.unread -= len;
        self.free += len;
        let mut left = len;
        while left > 0 {
            let Some(first) = self.messages.front_mut() else {
                break;
            };
            let of_first = left.min(*first);
            *first -= of_first;
            left -= of_first;
            self.retire();
        }
    }

    /// Removes and counts the messages at the front that are fully read.
    fn retire(&mut self) {
        while self.messages.front() == Some(&0) {
            self.messages.pop_front();
            self.count_message();
        }
    }

    /// Takes the grant that is due, if any. The caller must send it.
    pub(crate) fn grant(&mut self) -> Option<Grant> {
        let has_half = self.free >= self.half;
        let many_taken = self.taken.wrapping_sub(self.grant_at) < 1 << 15;
        if !has_half && !many_taken {
            return None;
        }
        self.grant_at = self.taken.wrapping_add((self.credits / 2).max(1));
        let room = has_half.then(|| {
            let start = self.next_offer;
            self.free -= self.half;
            self.offered += self.half;
            self.next_offer = (start + self.half) % (2 * self.half);
            start..start + self.half
        });
        let credits = self.taken.wrapping_add(self.credits);
        Some(Grant { credits, room })
    }
}

//! The receiving half of a stream: what the peer has written into the receive buffer, what the
//! program has taken, and what the peer is therefore told. No I/O.
//!
//! The receive buffer is a ring of two halves. The peer knows at most two stretches of it at a
//! time, each a whole half, and fills a half before it uses the next one. When the program has taken
//! as many bytes as a half has, that half is offered again.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The length of each half in bytes.
    half: usize,
    /// The number of data messages that the peer may have sent without that the program took them.
    credits: u16,
    /// The next byte for the program, as an offset in the ring.
    next: usize,
    /// The lengths of the messages that the program has not taken. What it has taken of the first
    /// one is subtracted.
    messages: VecDeque<usize>,
    /// The sum of `messages`.
    unread: usize,
    /// Bytes that were offered, and for which no message has come.
    offered: usize,
    /// Bytes that are free and not offered.
    free: usize,
    /// The half to offer next, as an offset in the ring.
    next_offer: usize,
    /// The number of messages that the program has taken, modulo 2^16.
    taken: u16,
    /// The value of `taken` from which on the peer is told, although no half is free.
    tell_at: u16,
}

/// What to tell the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number of messages that it may have sent in total, modulo 2^16.
    pub(crate) credits: u16,
    /// A further stretch of the ring for it.
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
    /// A ring of `2 * half` bytes whose first half the peer knows from the private data, with
    /// `credits`.
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
            tell_at: credits / 2,
        }
    }

    /// Bytes that wait for the program.
    pub(crate) fn unread(&self) -> usize {
        self.unread
    }

    /// A message announces `len` bytes.
    ///
    /// # Errors
    /// If the peer was not offered these. The connection must end.
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

    /// A message came that uses a credit and needs nothing of the program.
    pub(crate) fn count_message(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// The stretches of the ring where the next bytes are, at most `len`, from `skip` on.
    pub(crate) fn stretches(&self, skip: usize, len: usize) -> [Range<usize>; 2] {
        let len = len.min(self.unread.saturating_sub(skip));
        let size = 2 * self.half;
        let start = (self.next + skip) % size;
        let first = len.min(size - start);
        [start..start + first, 0..len - first]
    }

    /// The program has taken the next `len` bytes.
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

    /// Counts the messages at the front of which nothing is left.
    fn retire(&mut self) {
        while self.messages.front() == Some(&0) {
            self.messages.pop_front();
            self.count_message();
        }
    }

    /// What to tell the peer now, if anything. The caller tells it.
    pub(crate) fn grant(&mut self) -> Option<Grant> {
        let has_half = self.free >= self.half;
        let many_taken = self.taken.wrapping_sub(self.tell_at) < 1 << 15;
        if !has_half && !many_taken {
            return None;
        }
        self.tell_at = self.taken.wrapping_add((self.credits / 2).max(1));
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

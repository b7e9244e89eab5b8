//! The sending half of a stream: tracks unacknowledged bytes, credits, and the room that the peer has
//! offered. No I/O.

use crate::wire::Element;
use std::collections::VecDeque;
use std::ops::Range;

/// Places in the send queue reserved for messages without data, so that the ends can always grant each
/// other room. rdma-core reserves as many.
pub(crate) const CONTROL_SLOTS: u16 = 4;

/// Maximum transfer in bytes, so that the peer can start reading while this end still copies.
/// rdma-core starts each call with 2 KiB and doubles; here, that halves the bandwidth.
pub(crate) const LARGEST_TRANSFER: usize = 64 << 10;

/// Free bytes of the send buffer from which a socket is writable.
const LOW_WATER: usize = 2048;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The length of the send buffer, a ring, in bytes.
    size: usize,
    /// Where the next bytes go, as an offset in the ring.
    next: usize,
    /// Free bytes of the ring.
    free: usize,
    /// Free places in the send queue for data.
    slots: u16,
    /// Free places in the send queue for messages without data.
    control: u16,
    /// The requests in the send queue.
    in_flight: VecDeque<InFlight>,
    /// The number of data messages sent, modulo 2^16.
    sent: u16,
    /// The number of data messages that the peer has granted, modulo 2^16.
    granted: u16,
    /// The rest of the current stretch of the peer's receive buffer.
    room: Element,
}

/// A request in the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    /// Holds this number of bytes of the ring.
    Data(usize),
    Control,
}

/// A transfer to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The place of the bytes in the send buffer; the second stretch continues the first at the start of
    /// the ring. Both are empty if the bytes are sent inline.
    pub(crate) stretches: [Range<usize>; 2],
    /// The number of bytes.
    pub(crate) len: usize,
    /// The address in the peer's memory.
    pub(crate) address: u64,
    /// The remote key of the peer's memory.
    pub(crate) key: u32,
}

impl Outbox {
    /// For a send buffer of `size` bytes, a send queue of `slots` requests, and a peer that has granted
    /// `credits` messages and `room`.
    pub(crate) fn new(size: usize, slots: u16, credits: u16, room: Element) -> Self {
        Self {
            size,
            next: 0,
            free: size,
            slots: slots.saturating_sub(CONTROL_SLOTS).max(1),
            control: CONTROL_SLOTS,
            in_flight: VecDeque::new(),
            sent: 0,
            granted: credits,
            room,
        }
    }

    /// Sets the number of messages that the peer has granted.
    pub(crate) fn set_credits(&mut self, granted: u16) {
        self.granted = granted;
    }

    /// Whether the current stretch is full.
    pub(crate) fn needs_room(&self) -> bool {
        self.room.len == 0
    }

    /// Sets the next stretch that the peer has offered.
    pub(crate) fn set_room(&mut self, room: Element) {
        self.room = room;
    }

    /// Whether there is a place in the send queue and a credit.
    pub(crate) fn has_credit(&self) -> bool {
        self.slots > 0 && self.sent != self.granted
    }

    /// Whether to report the socket as writable.
    pub(crate) fn is_writable(&self) -> bool {
        self.has_credit() && self.room.len > 0 && self.free >= LOW_WATER.min(self.size)
    }

    /// Plans a transfer of at most `wanted` bytes (not 0) and reserves a place in the send queue. Up to
    /// `inline` bytes bypass the send buffer.
    pub(crate) fn plan(&mut self, wanted: usize, inline: usize) -> Option<Transfer> {
        if !self.has_credit() || self.room.len == 0 {
            return None;
        }
        let len = wanted.min(usize::try_from(self.room.len).unwrap_or(usize::MAX));
        let (len, in_ring) = if len <= inline {
            (len, 0)
        } else {
            let len = len.min(self.free);
            (len, len)
        };
        if len == 0 {
            return None;
        }
        let transfer = Transfer {
            stretches: self.reserve(in_ring),
            len,
            address: self.room.address,
            key: self.room.key,
        };
        // `len` is at most `room.len`.
        self.room.len -= len as u32;
        self.room.address = self.room.address.wrapping_add(len as u64);
        self.sent = self.sent.wrapping_add(1);
        Some(transfer)
    }

    /// Plans a write of at most `wanted` bytes (not 0) to memory that the peer has mapped. It reserves a
    /// place in the send queue but needs no credit.
    pub(crate) fn plan_direct(&mut self, wanted: usize) -> Option<[Range<usize>; 2]> {
        let len = wanted.min(self.free);
        (len > 0 && self.slots > 0).then(|| self.reserve(len))
    }

    /// Reserves a place in the send queue and a credit for a message with an inline mapping.
    pub(crate) fn plan_mapping(&mut self) -> bool {
        let may = self.has_credit();
        if may {
            self.reserve(0);
            self.sent = self.sent.wrapping_add(1);
        }
        may
    }

    fn reserve(&mut self, len: usize) -> [Range<usize>; 2] {
        self.slots -= 1;
        self.in_flight.push_back(InFlight::Data(len));
        let start = self.next;
        let first = len.min(self.size - start);
        self.next = (start + len) % self.size;
        self.free -= len;
        [start..start + first, 0..len - first]
    }

    /// Reserves a place in the send queue for a message without data, if one is free.
    pub(crate) fn plan_control(&mut self) -> bool {
        let may = self.control > 0;
        if may {
            self.control -= 1;
            self.in_flight.push_back(InFlight::Control);
        }
        may
    }

    /// Releases the place that [`Outbox::plan_control`] reserved last.
    pub(crate) fn undo_plan_control(&mut self) {
        if self.in_flight.pop_back() == Some(InFlight::Control) {
            self.control += 1;
        }
    }

    /// Called when the oldest request has completed.
    pub(crate) fn complete(&mut self) {
        match self.in_flight.pop_front() {
            Some(InFlight::Data(len)) => {
                self.slots += 1;
                self.free += len;
            }
            Some(InFlight::Control) => self.control += 1,
            None => {}
        }
    }

    /// The number of requests that have not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether every request has completed.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}

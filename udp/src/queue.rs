//! Packets waiting to leave through one socket, joined into datagrams.
//!
//! The bytes lie in one arena that serves as a ring of datagrams. Each datagram is contiguous, and
//! datagrams are freed in the order in which they were queued. When the queue runs empty it starts
//! again at the beginning of the arena, so a queue that stays short stays in the cache.

use std::collections::VecDeque;
use std::ops::Range;

use roce_stack::{IpCovered, QpnPart, TxMeta};

#[cfg(test)]
mod tests;

/// The most segments that every kernel with UDP_SEGMENT takes in one datagram.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Each datagram begins on its own cache line.
const ALIGN: usize = 64;

/// The flags and fragment offset that follow the identification in the IPv4 header: "don't
/// fragment", offset 0.
const DONT_FRAGMENT: u16 = 0x4000;

/// One or more packets that leave as one message of a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The destination, source and options.
    pub(crate) to: TxMeta,
    start: usize,
    /// Length of the datagram in bytes.
    pub(crate) len: usize,
    /// Length of each packet but the last, in bytes. The last may be shorter.
    pub(crate) segment: usize,
    /// Number of packets.
    pub(crate) segments: usize,
    /// Packets cut off when the kernel refused the whole datagram; see
    /// [`TxQueue::cut_to_first`].
    pub(crate) cut: usize,
    /// Whether another packet may still join.
    open: bool,
    /// The part that the packets' destination QPs belong to. The receiving host may have a process
    /// for each part, and steers a datagram by its first packet. If `None`, no other packet joins
    /// the datagram.
    part: Option<QpnPart>,
}

impl Datagram {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    fn takes(&self, to: &TxMeta, part: Option<QpnPart>, len: usize, max_datagram: usize) -> bool {
        self.open
            && part.is_some()
            && self.part == part
            && len <= self.segment
            && self.segments < MAX_SEGMENTS
            && self.len + len <= max_datagram
            && self.to == *to
    }
}

/// The position of the packet that was reserved last.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    to: TxMeta,
    part: Option<QpnPart>,
    start: usize,
    len: usize,
    joins: bool,
}

/// The transmit queue of one socket. The module's documentation describes its layout.
#[derive(Debug)]
pub(crate) struct TxQueue {
    arena: Box<[u8]>,
    datagrams: VecDeque<Datagram>,
    max_datagrams: usize,
    packets: usize,
    reserved: Option<Reservation>,
    /// Whether packets may be joined. May be switched off at any time; packets that are already
    /// joined stay so.
    pub(crate) segmentation: bool,
}

impl TxQueue {
    /// A queue of `arena_bytes` bytes and `max_datagrams` datagrams.
    pub(crate) fn new(arena_bytes: usize, max_datagrams: usize, segmentation: bool) -> Self {
        Self {
            arena: vec![0; arena_bytes].into_boxed_slice(),
            datagrams: VecDeque::with_capacity(max_datagrams),
            max_datagrams,
            packets: 0,
            reserved: None,
            segmentation,
        }
    }

    /// The number of packets in the queue.
    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Reserves `len` bytes for a packet to a QP in `part`. If `part` is `None`, the packet leaves
    /// in a datagram of its own. A datagram gets no longer than `max_datagram` bytes. Returns the
    /// buffer and the IP header fields that the packet's ICRC covers. Returns `None` if the queue
    /// is full.
    ///
    /// Nothing changes until [`Self::commit`], so a reservation can be dropped.
    pub(crate) fn reserve(
        &mut self,
        to: &TxMeta,
        part: Option<QpnPart>,
        len: usize,
        max_datagram: usize,
    ) -> Option<(&mut [u8], IpCovered)> {
        self.reserved = None;
        let (start, index) = match self.join(to, part, len, max_datagram) {
            Some(place) => place,
            None => (self.place(len)?, 0),
        };
        self.reserved = Some(Reservation {
            to: *to,
            part,
            start,
            len,
            joins: index > 0,
        });
        let ip = if to.dst.is_ipv4() {
            IpCovered::V4 {
                id: index,
                flags_fragment: DONT_FRAGMENT,
            }
        } else {
            IpCovered::V6
        };
        Some((&mut self.arena[start..start + len], ip))
    }

    /// Queues the reserved packet. Does nothing without a reservation.
    pub(crate) fn commit(&mut self) {
        let Some(packet) = self.reserved.take() else {
            return;
        };
        self.packets += 1;
        match self.datagrams.back_mut() {
            Some(last) if packet.joins => {
                last.len += packet.len;
                last.segments += 1;
                last.open = packet.len == last.segment;
            }
            _ => self.datagrams.push_back(Datagram {
                to: packet.to,
                start: packet.start,
                len: packet.len,
                segment: packet.len,
                segments: 1,
                cut: 0,
                open: true,
                part: packet.part,
            }),
        }
    }

    /// Drops the reservation.
    pub(crate) fn forget(&mut self) {
        self.reserved = None;
    }

    /// The datagrams, oldest first, with their bytes.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Datagram, &[u8])> {
        self.datagrams
            .iter()
            .map(|datagram| (datagram, &self.arena[datagram.range()]))
    }

    /// Removes the oldest datagram.
    pub(crate) fn pop(&mut self) -> Option<Datagram> {
        self.reserved = None;
        let datagram = self.datagrams.pop_front()?;
        self.packets -= datagram.segments;
        Some(datagram)
    }

    /// Removes all packets but the first from the oldest datagram. Sent alone, the first packet
    /// keeps identification 0, so its ICRC stays correct.
    pub(crate) fn cut_to_first(&mut self) {
        self.reserved = None;
        if let Some(first) = self.datagrams.front_mut() {
            let cut = first.segments - 1;
            self.packets -= cut;
            first.cut += cut;
            first.len = first.segment;
            first.segments = 1;
            first.open = false;
        }
    }

    /// The offset and index of a packet that joins the newest datagram.
    fn join(
        &self,
        to: &TxMeta,
        part: Option<QpnPart>,
        len: usize,
        max_datagram: usize,
    ) -> Option<(usize, u16)> {
        let last = self.datagrams.back()?;
        if !self.segmentation || !last.takes(to, part, len, max_datagram) {
            return None;
        }
        let start = last.start + last.len;
        let limit = if self.wraps() {
            self.datagrams.front()?.start
        } else {
            self.arena.len()
        };
        let index = u16::try_from(last.segments).ok()?;
        (start + len <= limit).then_some((start, index))
    }

    /// The offset of a packet that begins a datagram.
    fn place(&self, len: usize) -> Option<usize> {
        if self.datagrams.len() == self.max_datagrams {
            return None;
        }
        let (Some(first), Some(last)) = (self.datagrams.front(), self.datagrams.back()) else {
            return (len <= self.arena.len()).then_some(0);
        };
        let head = (last.start + last.len).next_multiple_of(ALIGN);
        if self.wraps() {
            (head + len <= first.start).then_some(head)
        } else if head + len <= self.arena.len() {
            Some(head)
        } else {
            (len <= first.start).then_some(0)
        }
    }

    /// Whether the newest datagram lies before the oldest.
    fn wraps(&self) -> bool {
        match (self.datagrams.front(), self.datagrams.back()) {
            (Some(first), Some(last)) => last.start < first.start,
            _ => false,
        }
    }
}

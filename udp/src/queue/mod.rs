//! Packets waiting to leave from one address, joined into datagrams.
//!
//! The bytes of a datagram lie in the queue's [`Arena`] or, if it may leave without a copy, in a
//! block of [`Kept`].

mod arena;

use std::collections::VecDeque;
use std::ops::Range;

use roce_stack::{IpCovered, QpnRange, TxMeta};

use crate::kept::{Block, Kept};
use arena::Arena;

#[cfg(test)]
mod tests;

/// The most segments that every kernel with UDP_SEGMENT takes in one datagram.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// The flags and fragment offset that follow the identification in the IPv4 header: "don't
/// fragment", offset 0.
const DONT_FRAGMENT: u16 = 0x4000;

/// The index of a flow's socket.
pub(crate) type FlowIndex = u16;

/// The socket that a datagram leaves from, and the identification of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Via {
    /// The flow's socket; the address's own if `None`.
    pub(crate) flow: Option<FlowIndex>,
    /// The IPv4 identification of the next datagram of that socket.
    pub(crate) next_id: u16,
}

impl Via {
    /// The address's own socket. It gives each datagram identification 0.
    pub(crate) const OWN: Self = Self {
        flow: None,
        next_id: 0,
    };
}

/// A packet to reserve room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) to: &'a TxMeta,
    /// The part of its destination QP. If `None`, it leaves in a datagram of its own.
    pub(crate) part: Option<QpnRange>,
    /// Its length in bytes.
    pub(crate) len: usize,
    /// The longest datagram that it may be part of, in bytes.
    pub(crate) max_datagram: usize,
    pub(crate) via: Via,
    /// Whether its memory may be kept until it is acknowledged.
    pub(crate) may_keep: bool,
    /// Whether a datagram that begins with it should leave without a copy, if its memory may be
    /// kept.
    pub(crate) begins_block: bool,
}

/// Room for a packet.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    pub(crate) bytes: &'a mut [u8],
    /// The fields of the IP header that the packet's ICRC covers.
    pub(crate) ip: IpCovered,
    pub(crate) kept: bool,
}

/// Where the bytes of a datagram are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// At this offset of the arena.
    Arena(usize),
    Block(Block),
}

/// One or more packets that leave as one message of a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The destination, source and options.
    pub(crate) to: TxMeta,
    /// The flow's socket that it leaves from; the address's own if `None`.
    pub(crate) flow: Option<FlowIndex>,
    /// The IPv4 identification of its first packet.
    id: u16,
    memory: Memory,
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
    part: Option<QpnRange>,
}

impl Datagram {
    /// The block that it lies in, if it may leave without a copy.
    pub(crate) fn block(&self) -> Option<Block> {
        match self.memory {
            Memory::Block(block) => Some(block),
            Memory::Arena(_) => None,
        }
    }

    fn takes(&self, wanted: &Wanted<'_>) -> bool {
        self.open
            && wanted.part.is_some()
            && self.part == wanted.part
            && self.flow == wanted.via.flow
            && wanted.len <= self.segment
            && self.segments < MAX_SEGMENTS
            && self.len + wanted.len <= wanted.max_datagram
            // The acknowledgement of the others would say nothing about its memory.
            && (wanted.may_keep || self.block().is_none())
            && self.to == *wanted.to
    }
}

/// The position of the packet that was reserved last.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    to: TxMeta,
    part: Option<QpnRange>,
    flow: Option<FlowIndex>,
    id: u16,
    memory: Memory,
    len: usize,
    joins: bool,
}

/// What [`TxQueue::commit`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The flow for which a new datagram was begun.
    pub(crate) begun: Option<FlowIndex>,
    /// The block that the packet lies in, if it is kept.
    pub(crate) block: Option<Block>,
}

/// The transmit queue of one address. The module's documentation describes its layout.
#[derive(Debug)]
pub(crate) struct TxQueue {
    arena: Arena,
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
            arena: Arena::new(arena_bytes, max_datagrams),
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

    /// Reserves room for a packet; `None` if the queue is full.
    ///
    /// Nothing changes until [`Self::commit`], so a reservation can be dropped.
    pub(crate) fn reserve<'a>(
        &'a mut self,
        wanted: &Wanted<'_>,
        kept: &'a mut Kept,
    ) -> Option<Room<'a>> {
        self.reserved = None;
        let (memory, start, index) = match self.join(wanted) {
            Some(place) => place,
            None => self.begin(wanted, kept)?,
        };
        let id = match self.datagrams.back() {
            Some(last) if index > 0 => last.id.wrapping_add(index),
            _ => wanted.via.next_id,
        };
        self.reserved = Some(Reservation {
            to: *wanted.to,
            part: wanted.part,
            flow: wanted.via.flow,
            id,
            memory,
            len: wanted.len,
            joins: index > 0,
        });
        let ip = if wanted.to.dst.is_ipv4() {
            IpCovered::V4 {
                id,
                flags_fragment: DONT_FRAGMENT,
            }
        } else {
            IpCovered::V6
        };
        let span = start..start + wanted.len;
        let (bytes, is_kept) = match memory {
            Memory::Arena(_) => (self.arena.bytes_mut(span), false),
            Memory::Block(block) => (kept.bytes_mut(block).get_mut(span)?, true),
        };
        Some(Room {
            bytes,
            ip,
            kept: is_kept,
        })
    }

    /// Queues the reserved packet. Does nothing without a reservation.
    pub(crate) fn commit(&mut self, kept: &mut Kept) -> Committed {
        let Some(packet) = self.reserved.take() else {
            return Committed::default();
        };
        self.packets += 1;
        let block = match packet.memory {
            Memory::Block(block) => Some(block),
            Memory::Arena(_) => None,
        };
        match self.datagrams.back_mut() {
            Some(last) if packet.joins => {
                last.len += packet.len;
                last.segments += 1;
                last.open = packet.len == last.segment;
                if block.is_none() {
                    self.arena.extend(packet.len);
                }
                return Committed { begun: None, block };
            }
            _ => {}
        }
        match packet.memory {
            Memory::Arena(start) => self.arena.push(start..start + packet.len),
            Memory::Block(_) => kept.take(),
        }
        self.datagrams.push_back(Datagram {
            to: packet.to,
            flow: packet.flow,
            id: packet.id,
            memory: packet.memory,
            len: packet.len,
            segment: packet.len,
            segments: 1,
            cut: 0,
            open: true,
            part: packet.part,
        });
        Committed {
            begun: packet.flow,
            block,
        }
    }

    /// Drops the reservation.
    pub(crate) fn forget(&mut self) {
        self.reserved = None;
    }

    /// The datagrams, oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Datagram> {
        self.datagrams.iter()
    }

    /// The bytes of a datagram of this queue.
    pub(crate) fn bytes<'a>(&'a self, datagram: &Datagram, kept: &'a Kept) -> &'a [u8] {
        match datagram.memory {
            Memory::Arena(start) => self.arena.bytes(range(start, datagram.len)),
            Memory::Block(block) => kept.bytes(block).get(..datagram.len).unwrap_or_default(),
        }
    }

    /// Removes the oldest datagram.
    pub(crate) fn pop(&mut self) -> Option<Datagram> {
        self.reserved = None;
        let datagram = self.datagrams.pop_front()?;
        if datagram.block().is_none() {
            self.arena.pop();
        }
        self.packets -= datagram.segments;
        Some(datagram)
    }

    /// Removes all packets but the first from the oldest datagram. Sent alone, the first packet
    /// keeps its identification, so its ICRC stays correct.
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

    /// Where a packet is that joins the newest datagram: the datagram's memory, the packet's offset
    /// there, and its index in the datagram.
    fn join(&self, wanted: &Wanted<'_>) -> Option<(Memory, usize, u16)> {
        let last = self.datagrams.back()?;
        if !self.segmentation || !last.takes(wanted) {
            return None;
        }
        let start = match last.memory {
            Memory::Arena(_) => self.arena.after_newest(wanted.len)?,
            Memory::Block(_) => last.len,
        };
        Some((last.memory, start, u16::try_from(last.segments).ok()?))
    }

    /// Where a packet is that begins a datagram, in the form of [`Self::join`].
    fn begin(&self, wanted: &Wanted<'_>, kept: &mut Kept) -> Option<(Memory, usize, u16)> {
        if self.datagrams.len() == self.max_datagrams {
            return None;
        }
        let reader = wanted.part.map(|part| (wanted.to.dst, part));
        if let Some(reader) = reader.filter(|_| wanted.may_keep && wanted.begins_block)
            && let Some(block) = kept.offer(reader)
        {
            return Some((Memory::Block(block), 0, 0));
        }
        let start = self.arena.place(wanted.len)?;
        Some((Memory::Arena(start), start, 0))
    }
}

fn range(start: usize, len: usize) -> Range<usize> {
    start..start + len
}

//! The transmit queue of one address. It joins packets into datagrams.
//!
//! The bytes of a datagram lie in the queue's [`Arena`] or, if the datagram may be sent without a
//! copy, in a block of [`KeptBlocks`].

mod arena;

use std::collections::VecDeque;
use std::ops::Range;

use roce_stack::{IpCovered, QpnRange, TxMeta};

use crate::kept::{Block, KeptBlocks};
use crate::sys::memory::BLOCK_BYTES;
use arena::Arena;

#[cfg(test)]
mod tests;

/// The maximum number of segments in a datagram that every kernel with UDP_SEGMENT accepts.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// The flags and fragment offset that follow the identification in the IPv4 header: "don't
/// fragment", offset 0.
const DONT_FRAGMENT: u16 = 0x4000;

/// The index of a flow's socket.
pub(crate) type FlowIndex = u16;

/// The socket that a datagram leaves from, and the identification of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Via {
    /// The flow's socket; `None` means the socket of the address.
    pub(crate) flow: Option<FlowIndex>,
    /// The IPv4 identification of the next datagram of that socket.
    pub(crate) next_id: u16,
}

impl Via {
    /// The socket of the address. It sends each datagram with identification 0.
    pub(crate) const ADDRESS_SOCKET: Self = Self {
        flow: None,
        next_id: 0,
    };
}

/// A packet, or a run of packets of one length, to reserve space for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReserveRequest<'a> {
    pub(crate) to: &'a TxMeta,
    /// The part of the destination QP. If `None`, the packet leaves in a datagram of its own.
    pub(crate) part: Option<QpnRange>,
    /// The length of each packet in bytes.
    pub(crate) len: usize,
    /// The most packets to reserve space for; at least 1.
    pub(crate) count: usize,
    /// The maximum length of the datagram that the packet joins, in bytes.
    pub(crate) max_datagram_bytes: usize,
    pub(crate) via: Via,
    /// Whether the memory may be kept until the packet is acknowledged.
    pub(crate) may_keep: bool,
    /// Whether a datagram that begins with the packet should be sent without a copy, if its memory
    /// may be kept.
    pub(crate) begins_block: bool,
}

/// Reserved space for one or more packets.
#[derive(Debug)]
pub(crate) struct ReservedSpace<'a> {
    pub(crate) bytes: &'a mut [u8],
    /// The fields of the IP header that the first packet's ICRC covers. Over IPv4, identifications
    /// count up from there.
    pub(crate) ip: IpCovered,
    /// Whether the memory must not change until the packet is acknowledged.
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
    /// The flow's socket that it leaves from; `None` means the socket of the address.
    pub(crate) flow: Option<FlowIndex>,
    /// The IPv4 identification of the first packet.
    id: u16,
    memory: Memory,
    /// Length of the datagram in bytes.
    pub(crate) len: usize,
    /// Length of each packet but the last, in bytes. The last one may be shorter.
    pub(crate) segment: usize,
    /// Number of packets.
    pub(crate) segments: usize,
    /// The number of packets cut off when the kernel refused the whole datagram; see
    /// [`TxQueue::cut_to_first`].
    pub(crate) cut: usize,
    /// Whether another packet may still join.
    accepts_more: bool,
    /// The part that the packets' destination QPs belong to. The receiving host may have a process
    /// for each part, and steers a datagram by its first packet. `None` for QP1: no other packet
    /// joins the datagram.
    part: Option<QpnRange>,
}

impl Datagram {
    /// Whether it is a management datagram, to QP1.
    pub(crate) fn is_management(&self) -> bool {
        self.part.is_none()
    }

    /// The block that the datagram lies in, if it may be sent without a copy.
    pub(crate) fn block(&self) -> Option<Block> {
        match self.memory {
            Memory::Block(block) => Some(block),
            Memory::Arena(_) => None,
        }
    }

    /// Whether a packet can join the datagram.
    fn accepts(&self, request: &ReserveRequest<'_>) -> bool {
        self.accepts_more
            && request.part.is_some()
            && self.part == request.part
            && self.flow == request.via.flow
            && request.len <= self.segment
            && self.segments < MAX_SEGMENTS
            && self.len + request.len <= request.max_datagram_bytes
            // A block is reused when its packets are acknowledged, and this packet may never be.
            && (request.may_keep || self.block().is_none())
            && self.to == *request.to
    }
}

/// Space for packets in a datagram.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// The datagram's memory.
    memory: Memory,
    /// The offset of the first packet there.
    start: usize,
    /// The index of the first packet in the datagram.
    index: u16,
    /// The number of packets that it has room for, at most as many as requested.
    packets: usize,
}

/// The reservation for the next packets to commit.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    to: TxMeta,
    part: Option<QpnRange>,
    flow: Option<FlowIndex>,
    id: u16,
    memory: Memory,
    /// Where the packets start, in the arena or in the block.
    start: usize,
    /// The length of each packet in bytes.
    len: usize,
    packets: usize,
    joins: bool,
}

/// The result of [`TxQueue::commit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// The flow's socket, if the packet begins a new datagram that leaves from it.
    pub(crate) begun: Option<FlowIndex>,
    /// The block that the packet lies in, if it is kept.
    pub(crate) block: Option<Block>,
}

/// The transmit queue of one address. See the module's documentation for its layout.
#[derive(Debug)]
pub(crate) struct TxQueue {
    arena: Arena,
    datagrams: VecDeque<Datagram>,
    max_datagrams: usize,
    packets: usize,
    reserved: Option<Reservation>,
    /// Whether packets may be joined. May be switched off at any time. Packets that are already
    /// joined stay joined.
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

    /// Reserves space for at least one packet. Returns `None` if the queue is full.
    ///
    /// The queue does not change until [`Self::commit`], so a reservation can be dropped.
    pub(crate) fn reserve<'a>(
        &'a mut self,
        request: &ReserveRequest<'_>,
        kept: &'a mut KeptBlocks,
    ) -> Option<ReservedSpace<'a>> {
        self.reserved = None;
        let Space {
            memory,
            start,
            index,
            packets,
        } = match self.space_in_newest(request) {
            Some(space) => space,
            None => self.space_in_new(request, kept)?,
        };
        let id = match self.datagrams.back() {
            Some(last) if index > 0 => last.id.wrapping_add(index),
            _ => request.via.next_id,
        };
        self.reserved = Some(Reservation {
            to: *request.to,
            part: request.part,
            flow: request.via.flow,
            id,
            memory,
            start,
            len: request.len,
            packets,
            joins: index > 0,
        });
        let ip = if request.to.dst.is_ipv4() {
            IpCovered::V4 {
                id,
                flags_fragment: DONT_FRAGMENT,
            }
        } else {
            IpCovered::V6
        };
        let span = start..start + packets * request.len;
        let (bytes, is_kept) = match memory {
            Memory::Arena(_) => (self.arena.bytes_mut(span), false),
            Memory::Block(block) => (kept.bytes_mut(block).get_mut(span)?, true),
        };
        Some(ReservedSpace {
            bytes,
            ip,
            kept: is_kept,
        })
    }

    /// The bytes of the reserved packets; empty without a reservation.
    pub(crate) fn reserved<'a>(&'a self, kept: &'a KeptBlocks) -> &'a [u8] {
        let Some(packet) = &self.reserved else {
            return &[];
        };
        let span = range(packet.start, packet.packets * packet.len);
        match packet.memory {
            Memory::Arena(_) => self.arena.bytes(span),
            Memory::Block(block) => kept.bytes(block).get(span).unwrap_or_default(),
        }
    }

    /// Queues the reserved packets. Does nothing without a reservation.
    pub(crate) fn commit(&mut self, kept: &mut KeptBlocks) -> Committed {
        let Some(packet) = self.reserved.take() else {
            return Committed::default();
        };
        self.packets += packet.packets;
        let bytes = packet.packets * packet.len;
        let block = match packet.memory {
            Memory::Block(block) => Some(block),
            Memory::Arena(_) => None,
        };
        match self.datagrams.back_mut() {
            Some(last) if packet.joins => {
                last.len += bytes;
                last.segments += packet.packets;
                last.accepts_more = packet.len == last.segment;
                if block.is_none() {
                    self.arena.extend(bytes);
                }
                return Committed { begun: None, block };
            }
            _ => {}
        }
        match packet.memory {
            Memory::Arena(start) => self.arena.push(start..start + bytes),
            Memory::Block(_) => kept.take_prepared(),
        }
        self.datagrams.push_back(Datagram {
            to: packet.to,
            flow: packet.flow,
            id: packet.id,
            memory: packet.memory,
            len: bytes,
            segment: packet.len,
            segments: packet.packets,
            cut: 0,
            accepts_more: true,
            part: packet.part,
        });
        Committed {
            begun: packet.flow,
            block,
        }
    }

    /// Drops the reservation.
    pub(crate) fn cancel_reservation(&mut self) {
        self.reserved = None;
    }

    /// The datagrams, oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Datagram> {
        self.datagrams.iter()
    }

    /// The bytes of a datagram of this queue.
    pub(crate) fn bytes<'a>(&'a self, datagram: &Datagram, kept: &'a KeptBlocks) -> &'a [u8] {
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
            first.accepts_more = false;
        }
    }

    /// Finds space for packets that join the newest datagram.
    fn space_in_newest(&self, request: &ReserveRequest<'_>) -> Option<Space> {
        let last = self.datagrams.back()?;
        if !self.segmentation || !last.accepts(request) {
            return None;
        }
        let space = match last.memory {
            Memory::Arena(_) => self.arena.space_after_newest(request.len)?,
            Memory::Block(_) => last.len..BLOCK_BYTES,
        };
        let packets = match request.len == last.segment {
            true => self.packets_that_fit(request, last.segments, last.len, space.len()),
            // A shorter packet is the last one.
            false => 1,
        };
        Some(Space {
            memory: last.memory,
            start: space.start,
            index: u16::try_from(last.segments).ok()?,
            packets,
        })
    }

    /// Finds space for packets that begin a datagram.
    fn space_in_new(&self, request: &ReserveRequest<'_>, kept: &mut KeptBlocks) -> Option<Space> {
        if self.datagrams.len() == self.max_datagrams {
            return None;
        }
        let reader = request.part.map(|part| (request.to.dst, part));
        let block = reader
            .filter(|_| request.may_keep && request.begins_block)
            .and_then(|reader| kept.prepare(reader));
        let (memory, space) = match block {
            Some(block) => (Memory::Block(block), 0..BLOCK_BYTES),
            None => {
                let space = self.arena.find_space(request.len)?;
                (Memory::Arena(space.start), space)
            }
        };
        Some(Space {
            memory,
            start: space.start,
            index: 0,
            packets: self.packets_that_fit(request, 0, 0, space.len()),
        })
    }

    /// The number of requested packets that fit in a datagram of `segments` packets and `len` bytes
    /// with `space` more bytes of memory. One fits.
    fn packets_that_fit(
        &self,
        request: &ReserveRequest<'_>,
        segments: usize,
        len: usize,
        space: usize,
    ) -> usize {
        if !self.segmentation || request.part.is_none() {
            return 1;
        }
        let bytes = space.min(request.max_datagram_bytes.saturating_sub(len));
        let most = request.count.min(MAX_SEGMENTS - segments);
        (bytes / request.len).min(most).max(1)
    }
}

fn range(start: usize, len: usize) -> Range<usize> {
    start..start + len
}

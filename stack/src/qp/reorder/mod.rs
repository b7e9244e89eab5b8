//! The buffers for out-of-order packets, which keep them until the packets before them have
//! arrived.
//!
//! All QPs of a NIC share one pool of a fixed number of buffers, each for one packet. Out-of-order
//! packets may be forged, so the pool limits what a QP can take from the others:
//!
//! - A QP that holds fewer than [`GUARANTEED`] buffers gets any buffer that is free. The pool
//!   reserves one buffer in [`RESERVED`] for such QPs.
//! - Another QP gets a buffer if it holds at most as many as are free, the reserve excepted. So one
//!   QP gets nearly half of the pool, and each further one less.
//! - A QP may hold its packets for [`PATIENCE`] without executing one of them. After that, the QP
//!   drops them when the missing packet arrives, and the pool drops them when another QP is short
//!   of buffers.
//!
//! A packet that gets no buffer is dropped.

mod ring;

use crate::counters::{Counters, DropReason};
use crate::seq::Seq;
use crate::time::{Duration, Instant};
use ring::{Ring, SPAN};
use roce_wire::{Bth, ExtHeaders, Packet, PathMtu};

/// The default number of buffers of a NIC. They take at most 4 MiB, whatever the path MTU, and each
/// QP that holds some needs another 8 KiB. Both are allocated when they are first needed.
pub(crate) const DEFAULT_PACKETS: usize = 1024;

/// A QP that holds fewer buffers than this gets another one if any is free.
const GUARANTEED: usize = 8;

/// One buffer in this many is reserved for QPs that hold fewer than [`GUARANTEED`].
const RESERVED: usize = 8;

/// How long a QP may hold packets without executing one of them. Recovery takes a few round trips.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest payload of a packet.
const MAX_PAYLOAD: usize = PathMtu::Mtu4096.bytes();

/// The out-of-order packets of one half of a QP: a queue in the pool, in the order of their PSNs.
/// The owner must release it with [`ReorderPool::release`].
#[derive(Debug, Default)]
pub(crate) struct ReorderQueue {
    /// `None` if the queue holds no packets.
    ticket: Option<Ticket>,
}

/// The right to use a queue of the pool. It ends when the queue is empty, which may be because the
/// pool has dropped its packets.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    index: usize,
    number: u64,
}

/// The result of [`ReorderPool::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The packet is kept.
    Stored,
    /// An earlier copy of the packet is kept already.
    Duplicate,
    /// The packet is dropped: it is too far ahead, too long, or there is no buffer for it.
    Dropped,
}

/// A kept packet. When it has left its queue, [`ReorderPool::give_back`] returns its buffer to the
/// pool.
#[derive(Debug)]
pub(crate) struct BufferedPacket {
    bth: Bth,
    ext: ExtHeaders,
    icrc: u32,
    len: usize,
    is_disputed: bool,
    buffer: [u8; MAX_PAYLOAD],
}

impl BufferedPacket {
    /// The packet as it arrived.
    pub(crate) fn as_packet(&self) -> Packet<'_> {
        Packet {
            bth: self.bth,
            ext: self.ext,
            payload: &self.buffer[..self.len],
            icrc: self.icrc,
        }
    }

    /// Whether a copy of the packet has arrived that differs from it.
    pub(crate) fn is_disputed(&self) -> bool {
        self.is_disputed
    }

    /// Whether the execution of `copy` would do the same.
    fn does_the_same_as(&self, copy: &Packet<'_>) -> bool {
        let kept = self.as_packet();
        kept.bth.opcode == copy.bth.opcode
            && kept.bth.solicited == copy.bth.solicited
            && kept.ext == copy.ext
            && kept.payload == copy.payload
    }
}

/// The packets of one half of a QP.
#[derive(Debug)]
struct Queue {
    /// The number of the valid ticket; `None` if the queue is free.
    ticket: Option<u64>,
    packets: Ring<Box<BufferedPacket>>,
    /// When the last packet left the queue; if none has, when the first one was kept.
    progress: Instant,
}

impl Queue {
    fn has_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.progress) > PATIENCE
    }
}

/// The buffers, free and in use.
#[derive(Debug)]
pub(crate) struct ReorderPool {
    queues: Vec<Queue>,
    free_queues: Vec<usize>,
    /// The number of the newest ticket.
    tickets: u64,
    /// The queue that was last checked for expiry.
    checked: usize,
    /// Buffers that are allocated and free.
    buffers: Vec<Box<BufferedPacket>>,
    /// The number of packets in queues.
    in_use: usize,
    limit: usize,
}

impl ReorderPool {
    pub(crate) fn new(packets: usize) -> Self {
        Self {
            queues: Vec::new(),
            free_queues: Vec::new(),
            tickets: 0,
            checked: 0,
            buffers: Vec::new(),
            in_use: 0,
            limit: packets,
        }
    }

    /// Changes the number of buffers; packets that are already kept stay.
    pub(crate) fn set_limit(&mut self, packets: usize) {
        self.limit = packets;
    }

    /// The lowest PSN of a queue.
    pub(crate) fn first(&self, queue: &ReorderQueue) -> Option<Seq> {
        self.queues[self.index(queue)?].packets.first()
    }

    /// Whether the queue has held packets for too long without progress.
    pub(crate) fn has_expired(&self, now: Instant, queue: &ReorderQueue) -> bool {
        self.index(queue)
            .is_some_and(|index| self.queues[index].has_expired(now))
    }

    /// Keeps a packet whose PSN is `at`, while the packet at `due` is missing.
    pub(crate) fn keep(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        queue: &mut ReorderQueue,
        due: Seq,
        at: Seq,
        packet: &Packet<'_>,
    ) -> Kept {
        if at - due >= SPAN as u64 || packet.payload.len() > MAX_PAYLOAD {
            return Kept::Dropped;
        }
        let mut held = 0;
        if let Some(index) = self.index(queue) {
            let packets = &mut self.queues[index].packets;
            if packets.get_mut(at).is_some() {
                return Kept::Duplicate;
            }
            if !packets.spans(at) {
                return Kept::Dropped;
            }
            held = packets.len();
        }
        if !self.has_buffer_for(held) {
            self.expire_next(now, counters);
        }
        if !self.has_buffer_for(held) {
            return Kept::Dropped;
        }
        let packet = self.copy(packet);
        let index = self.open(now, queue);
        self.queues[index].packets.insert(at, packet);
        self.in_use += 1;
        Kept::Stored
    }

    /// Compares the kept packet at `at` with a second copy of it. If the copies differ, the kept
    /// one becomes disputed. Returns whether they differ.
    pub(crate) fn dispute(&mut self, queue: &ReorderQueue, at: Seq, copy: &Packet<'_>) -> bool {
        let index = self.index(queue);
        let kept = index.and_then(|index| self.queues[index].packets.get_mut(at));
        let Some(kept) = kept.filter(|kept| !kept.does_the_same_as(copy)) else {
            return false;
        };
        kept.is_disputed = true;
        true
    }

    /// Removes the packet with the lowest PSN from the queue.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        queue: &mut ReorderQueue,
    ) -> Option<Box<BufferedPacket>> {
        let index = self.index(queue)?;
        let open = &mut self.queues[index];
        let packet = open.packets.pop_first()?;
        open.progress = now;
        self.in_use -= 1;
        if self.queues[index].packets.len() == 0 {
            self.close(index);
        }
        Some(packet)
    }

    /// Takes back the buffer of a packet that was taken.
    pub(crate) fn give_back(&mut self, packet: Box<BufferedPacket>) {
        self.buffers.push(packet);
    }

    /// Drops a whole queue. Returns the number of its packets.
    pub(crate) fn release(&mut self, queue: &mut ReorderQueue) -> u64 {
        let index = self.index(queue);
        queue.ticket = None;
        index.map_or(0, |index| self.drop_all(index))
    }

    /// Whether a QP that holds `held` buffers gets another one.
    fn has_buffer_for(&self, held: usize) -> bool {
        let free = self.limit.saturating_sub(self.in_use);
        let shared = free.saturating_sub(self.limit / RESERVED);
        free > 0 && (held < GUARANTEED || held <= shared)
    }

    /// Checks one queue, each in turn, and drops its packets if it has expired. So the cost of a
    /// packet that gets no buffer does not depend on the number of QPs.
    fn expire_next(&mut self, now: Instant, counters: &mut Counters) {
        self.checked = (self.checked + 1) % self.queues.len().max(1);
        let next = self.queues.get(self.checked);
        if next.is_some_and(|queue| queue.ticket.is_some() && queue.has_expired(now)) {
            for _ in 0..self.drop_all(self.checked) {
                counters.drop(DropReason::OutOfOrderExpired);
            }
        }
    }

    /// The index of the queue, if it holds packets.
    fn index(&self, queue: &ReorderQueue) -> Option<usize> {
        let Ticket { index, number } = queue.ticket?;
        (self.queues.get(index)?.ticket == Some(number)).then_some(index)
    }

    /// The index of the queue, which gets a free one if it holds no packets.
    fn open(&mut self, now: Instant, queue: &mut ReorderQueue) -> usize {
        if let Some(index) = self.index(queue) {
            return index;
        }
        let index = self.free_queues.pop().unwrap_or(self.queues.len());
        if index == self.queues.len() {
            self.queues.push(Queue {
                ticket: None,
                packets: Ring::new(),
                progress: now,
            });
        }
        self.tickets += 1;
        let number = self.tickets;
        let open = &mut self.queues[index];
        (open.ticket, open.progress) = (Some(number), now);
        queue.ticket = Some(Ticket { index, number });
        index
    }

    /// Frees a queue that is empty.
    fn close(&mut self, index: usize) {
        self.queues[index].ticket = None;
        self.free_queues.push(index);
    }

    /// Drops all packets of a queue and frees it. Returns the number of packets.
    fn drop_all(&mut self, index: usize) -> u64 {
        let held = self.queues[index].packets.len();
        while let Some(packet) = self.queues[index].packets.pop_first() {
            self.buffers.push(packet);
        }
        self.in_use -= held;
        self.close(index);
        held as u64
    }

    /// Copies a packet into a free buffer. Buffers are allocated when they are first needed, and
    /// never freed.
    fn copy(&mut self, packet: &Packet<'_>) -> Box<BufferedPacket> {
        let Packet { bth, ext, icrc, .. } = *packet;
        let len = packet.payload.len();
        let mut copy = self.buffers.pop().unwrap_or_else(|| {
            Box::new(BufferedPacket {
                bth,
                ext,
                icrc,
                len,
                is_disputed: false,
                buffer: [0; MAX_PAYLOAD],
            })
        });
        (copy.bth, copy.ext, copy.icrc, copy.len) = (bth, ext, icrc, len);
        copy.is_disputed = false;
        copy.buffer[..len].copy_from_slice(packet.payload);
        copy
    }
}

#[cfg(test)]
mod tests;

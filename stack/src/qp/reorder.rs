//! The buffers for out-of-order packets, which keep them until the packets before them have
//! arrived. All QPs of a NIC share one pool of a fixed number of buffers, each for one packet. When
//! no buffer is free, out-of-order packets are dropped.

use crate::seq::Seq;
use roce_wire::{Bth, ExtHeaders, Packet, PathMtu};

/// The default number of buffers of a NIC. They take at most 4 MiB, whatever the path MTU, and are
/// allocated when they are first needed.
pub(crate) const DEFAULT_PACKETS: usize = 1024;

/// The maximum distance, in PSNs, of a kept packet from the missing one.
const REACH: u64 = 1024;

/// The largest payload of a packet.
const MAX_PAYLOAD: usize = PathMtu::Mtu4096.bytes();

/// The out-of-order packets of one half of a QP: a queue in the pool, in the order of their PSNs.
/// The owner must release it with [`ReorderPool::release`].
#[derive(Debug, Default)]
pub(crate) struct ReorderQueue {
    ends: Option<Ends>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The result of [`ReorderPool::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The packet is kept.
    Stored,
    /// An earlier copy of the packet is kept already.
    Duplicate,
    /// The packet is dropped: it is too far ahead, too long, or the pool is full.
    Dropped,
}

/// A kept packet that has left its queue. [`ReorderPool::give_back`] returns its buffer to the
/// pool.
#[derive(Debug)]
pub(crate) struct BufferedPacket {
    bth: Bth,
    ext: ExtHeaders,
    icrc: u32,
    len: usize,
    buffer: Box<[u8]>,
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
}

#[derive(Debug)]
struct Slot {
    at: Seq,
    next: Option<u32>,
    packet: BufferedPacket,
}

/// The buffers, free and in use.
#[derive(Debug)]
pub(crate) struct ReorderPool {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Buffers that are free.
    buffers: Vec<Box<[u8]>>,
    limit: usize,
}

impl ReorderPool {
    pub(crate) fn new(packets: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            buffers: Vec::new(),
            limit: packets,
        }
    }

    /// Changes the number of buffers; packets that are already kept stay.
    pub(crate) fn set_limit(&mut self, packets: usize) {
        self.limit = packets;
    }

    /// The lowest PSN of a queue.
    pub(crate) fn first(&self, queue: &ReorderQueue) -> Option<Seq> {
        Some(self.slot(queue.ends?.first)?.at)
    }

    /// Keeps a packet whose PSN is `at`, while the packet at `due` is missing.
    pub(crate) fn keep(
        &mut self,
        queue: &mut ReorderQueue,
        due: Seq,
        at: Seq,
        packet: &Packet<'_>,
    ) -> Kept {
        if at - due > REACH || packet.payload.len() > MAX_PAYLOAD {
            return Kept::Dropped;
        }
        // Most packets go to the end.
        let newest = queue.ends.and_then(|ends| self.slot(ends.last));
        let before = match newest {
            Some(last) if last.at < at => queue.ends.map(|ends| ends.last),
            _ => match self.last_before(queue, at) {
                Ok(before) => before,
                Err(()) => return Kept::Duplicate,
            },
        };
        let Some(index) = self.store(at, packet) else {
            return Kept::Dropped;
        };
        self.link(queue, before, index);
        Kept::Stored
    }

    /// Removes the packet with the lowest PSN from the queue.
    pub(crate) fn take(&mut self, queue: &mut ReorderQueue) -> Option<BufferedPacket> {
        let ends = queue.ends?;
        let slot = self.slots.get_mut(ends.first as usize)?.take()?;
        self.free.push(ends.first);
        queue.ends = slot.next.map(|first| Ends {
            first,
            last: ends.last,
        });
        Some(slot.packet)
    }

    /// Takes back the buffer of a packet that was taken.
    pub(crate) fn give_back(&mut self, packet: BufferedPacket) {
        self.buffers.push(packet.buffer);
    }

    /// Drops a whole queue. Returns the number of its packets.
    pub(crate) fn release(&mut self, queue: &mut ReorderQueue) -> u64 {
        let mut count = 0;
        while let Some(packet) = self.take(queue) {
            self.give_back(packet);
            count += 1;
        }
        count
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)?.as_ref()
    }

    /// The last packet of the queue before `at`; an error if there is one at `at`.
    fn last_before(&self, queue: &ReorderQueue, at: Seq) -> Result<Option<u32>, ()> {
        let mut before = None;
        let mut index = queue.ends.map(|ends| ends.first);
        while let Some(i) = index {
            let Some(slot) = self.slot(i).filter(|slot| slot.at <= at) else {
                break;
            };
            if slot.at == at {
                return Err(());
            }
            before = Some(i);
            index = slot.next;
        }
        Ok(before)
    }

    fn link(&mut self, queue: &mut ReorderQueue, before: Option<u32>, index: u32) {
        let next = match before {
            None => queue.ends.map(|ends| ends.first),
            Some(before) => self
                .slots
                .get_mut(before as usize)
                .and_then(Option::as_mut)
                .and_then(|slot| slot.next.replace(index)),
        };
        if let Some(Some(slot)) = self.slots.get_mut(index as usize) {
            slot.next = next;
        }
        let ends = queue.ends.get_or_insert(Ends {
            first: index,
            last: index,
        });
        if before.is_none() {
            ends.first = index;
        }
        if next.is_none() {
            ends.last = index;
        }
    }

    /// Copies a packet into a buffer. Buffers are allocated when they are first needed, and never
    /// freed.
    fn store(&mut self, at: Seq, packet: &Packet<'_>) -> Option<u32> {
        let in_use = self.slots.len() - self.free.len();
        if in_use >= self.limit {
            return None;
        }
        let mut buffer = self
            .buffers
            .pop()
            .unwrap_or_else(|| vec![0; MAX_PAYLOAD].into_boxed_slice());
        let len = packet.payload.len();
        buffer[..len].copy_from_slice(packet.payload);
        let slot = Slot {
            at,
            next: None,
            packet: BufferedPacket {
                bth: packet.bth,
                ext: packet.ext,
                icrc: packet.icrc,
                len,
                buffer,
            },
        };
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(slot);
            return Some(index);
        }
        let index = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Some(slot));
        Some(index)
    }
}

#[cfg(test)]
mod tests;

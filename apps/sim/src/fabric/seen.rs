//! The packets of cables that are watched.

use super::fate::Fate;
use super::pool::Packet;
use super::{CableId, EgressId, NodeId, frame};
use roce_stack::Instant;

/// The memory for packets that the caller has not taken. More packets are missed.
const MAX_BYTES: usize = 64 << 20;

/// A packet at one direction of a watched cable.
///
/// A packet is seen once when it is sent, and once more when it arrives at a host or is lost. A
/// packet that a switch drops is seen at the port that would have sent it; without a route, at the
/// cable on which it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPacket<'a> {
    /// When it happened.
    pub time: Instant,
    /// The cable.
    pub cable: CableId,
    /// The node that sends in this direction.
    pub from: NodeId,
    /// Its fate.
    pub fate: Fate,
    /// The length of the port's queue in bytes, which the packet is not part of: when it was
    /// marked, for a marked packet, or now.
    pub queued_bytes: usize,
    /// The Ethernet frame without its check sequence, or the beginning of the frame.
    pub frame: &'a [u8],
    /// The length of the whole frame in bytes, without its check sequence.
    pub frame_len: usize,
}

/// Packets that were seen, in order. [`Fabric::take_seen`](super::Fabric::take_seen) fills it.
#[derive(Debug, Default)]
pub struct SeenPackets {
    packets: Vec<Entry>,
    /// The frames, one after the other.
    bytes: Vec<u8>,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The packet, without its frame.
    packet: SeenPacket<'static>,
    /// The end of the frame in `bytes`. It begins where the previous one ends.
    end: usize,
}

impl SeenPackets {
    /// The packets.
    pub fn iter(&self) -> impl Iterator<Item = SeenPacket<'_>> {
        let begins = std::iter::once(0).chain(self.packets.iter().map(|entry| entry.end));
        let all = self.packets.iter().zip(begins);
        all.map(|(entry, begin)| SeenPacket {
            frame: &self.bytes[begin..entry.end],
            ..entry.packet
        })
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The number of packets that were left out after these, because the caller did not take these
    /// soon enough.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Removes the packets, and keeps the memory.
    fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
        self.missed = 0;
    }

    fn has_space(&self, bytes: usize) -> bool {
        let entries = self.packets.len() * size_of::<Entry>();
        entries + self.bytes.len() + bytes <= MAX_BYTES
    }
}

/// Watches cables.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// For each direction that is watched, the node that sends and the bytes kept of each frame.
    watched: Vec<Option<(NodeId, usize)>>,
    seen: SeenPackets,
}

impl Watch {
    pub(super) fn add(&mut self, egress: EgressId, from: NodeId, snap_bytes: usize) {
        if self.watched.len() <= egress.0 {
            self.watched.resize(egress.0 + 1, None);
        }
        let watched = self.watched[egress.0].get_or_insert((from, 0));
        watched.1 = watched.1.max(snap_bytes);
    }

    pub(super) fn take(&mut self, into: &mut SeenPackets) {
        into.clear();
        std::mem::swap(&mut self.seen, into);
    }

    pub(super) fn see(
        &mut self,
        time: Instant,
        egress: EgressId,
        fate: Fate,
        queued_bytes: usize,
        packet: &Packet,
    ) {
        let Some((from, snap_bytes)) = self.watched.get(egress.0).copied().flatten() else {
            return;
        };
        let seen = &mut self.seen;
        let kept = frame::MAX_HEADER_BYTES + packet.len();
        if !seen.has_space(kept.min(snap_bytes)) {
            seen.missed += 1;
            return;
        }
        let frame_len = frame::append(packet, snap_bytes, &mut seen.bytes);
        let packet = SeenPacket {
            time,
            cable: CableId(egress.0 / 2),
            from,
            fate,
            queued_bytes,
            frame: &[],
            frame_len,
        };
        let end = seen.bytes.len();
        seen.packets.push(Entry { packet, end });
    }
}

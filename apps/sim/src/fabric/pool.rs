//! Packets in flight, in reusable buffers.

use super::{EgressId, HostId, mark};
use roce_port::SentRef;
use roce_stack::{IpCovered, RxMeta};
use std::net::{IpAddr, Ipv4Addr};

/// Identifies a packet in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketId(u32);

#[cfg(test)]
impl PacketId {
    /// For tests of code that stores identifiers.
    pub(super) fn test(number: u32) -> Self {
        Self(number)
    }
}

/// The rest of the shortest Ethernet frame, of 60 bytes without its check sequence, behind the
/// headers of Ethernet, IPv4 and UDP.
const SHORTEST_FRAME: usize = 60 - 42;

/// A packet on its way.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) meta: RxMeta,
    /// The link that it arrived on at its current switch.
    pub(super) from: Option<EgressId>,
    /// The host that keeps the packet's memory, and the memory. `None` if the bytes are the packet's
    /// own.
    pub(super) sent: Option<(HostId, SentRef)>,
    /// The length in bytes of the queue that it waits in, when the switch marked it.
    pub(super) marked_at: Option<usize>,
    /// The length of the bytes.
    len: usize,
    /// The bytes of it that are headers below the transport, which links add to every packet.
    headers: usize,
    bytes: Vec<u8>,
}

impl Packet {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The transport packet, BTH to ICRC: what is behind the headers.
    pub(super) fn transport_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.headers..self.len]
    }

    /// The length of a transport packet, BTH to ICRC, to which links add the headers.
    pub(super) fn len(&self) -> usize {
        self.len - self.headers
    }

    /// The length that queues count. A frame has at least that of the shortest one, or a queue could
    /// hold any number of frames that are nothing but headers.
    pub(super) fn queue_len(&self) -> usize {
        match self.is_frame() {
            true => self.len().max(SHORTEST_FRAME),
            false => self.len(),
        }
    }

    /// Sets "congestion experienced".
    pub(super) fn mark(&mut self) {
        self.meta.traffic_class |= 3;
        if self.is_frame() {
            mark::mark(self.bytes_mut());
        }
    }

    /// Whether the packet is a whole frame.
    pub(super) fn is_frame(&self) -> bool {
        self.headers != 0
    }

    /// Says that the packet begins with headers below the transport.
    pub(super) fn set_headers(&mut self, bytes: usize) {
        self.headers = bytes.min(self.len);
    }
}

/// All packets that are in flight.
#[derive(Debug, Default)]
pub(super) struct Pool {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
}

impl Pool {
    /// Allocates a packet of `len` bytes, whose contents are arbitrary.
    pub(super) fn allocate(&mut self, len: usize) -> PacketId {
        let id = self.free.pop().unwrap_or_else(|| {
            let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            self.packets.push(Packet {
                meta: RxMeta {
                    src: nowhere,
                    dst: nowhere,
                    src_port: 0,
                    traffic_class: 0,
                    ip: IpCovered::V4Hidden,
                },
                from: None,
                sent: None,
                marked_at: None,
                len: 0,
                headers: 0,
                bytes: Vec::new(),
            });
            PacketId(u32::try_from(self.packets.len() - 1).unwrap_or(u32::MAX))
        });
        let packet = self.get_mut(id);
        if packet.bytes.len() < len {
            // A byte that is not overwritten shows in tests.
            packet.bytes.resize(len, 0xa5);
        }
        packet.len = len;
        packet.headers = 0;
        packet.from = None;
        packet.sent = None;
        packet.marked_at = None;
        id
    }

    /// A copy of packet `id`.
    pub(super) fn duplicate(&mut self, id: PacketId) -> PacketId {
        let len = self.get(id).len;
        let headers = self.get(id).headers;
        let copy = self.allocate(len);
        let (from, to) = (id.0 as usize, copy.0 as usize);
        if let Ok([original, double]) = self.packets.get_disjoint_mut([from, to]) {
            double.meta = original.meta;
            double.sent = original.sent;
            double.headers = headers;
            double.bytes_mut().copy_from_slice(original.bytes());
        }
        copy
    }

    pub(super) fn release(&mut self, id: PacketId) {
        self.free.push(id);
    }

    pub(super) fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }

    /// The number of packets in flight.
    pub(super) fn in_use(&self) -> usize {
        self.packets.len() - self.free.len()
    }
}

//! Messages that arrive in packets, of RC and UC.

use roce_wire::{Packet, Position};

/// A message in progress: some of its packets have arrived, but not all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inbound {
    /// A SEND into the receive at the front of the queue; `placed` bytes have been placed.
    Send { placed: u64 },
    /// A WRITE to the region with this key, from `va` on; `rest` of `total` bytes are still
    /// missing.
    Write {
        va: u64,
        rkey: u32,
        total: u32,
        rest: u32,
    },
}

impl Inbound {
    /// Whether the receive at the front of the queue is in use.
    pub(crate) fn holds_receive(&self) -> bool {
        matches!(self, Self::Send { .. })
    }
}

/// Whether the payload has the length that its place in the message requires (IBTA 1.7, 9.7.4.1.6).
// rule: 9.8.2-lengths
pub(crate) fn length_is_legal(packet: &Packet<'_>, mtu: usize) -> bool {
    let shortest = match packet.bth.opcode.position() {
        // rule: 9.7.4.1-length-full
        Position::First | Position::Middle => mtu,
        // rule: 9.7.4.1-length-last
        Position::Last => 1,
        // rule: 9.7.4.1-length-only
        Position::Only => 0,
    };
    (shortest..=mtu).contains(&packet.payload.len())
}

/// The destination of the bytes of a WRITE's packet: address, key, length of the message, and the
/// length that is left, this packet included. `open` is the message that the packet continues.
/// `None` if the packet is out of place.
// rule: 9.7.4.1.2-one-kind
pub(crate) fn write_target(
    open: Option<Inbound>,
    packet: &Packet<'_>,
) -> Option<(u64, u32, u32, u32)> {
    match (open, packet.ext.reth) {
        (None, Some(reth)) => Some((reth.va, reth.rkey, reth.dma_len, reth.dma_len)),
        (
            Some(Inbound::Write {
                va,
                rkey,
                total,
                rest,
            }),
            None,
        ) => Some((va, rkey, total, rest)),
        _ => None,
    }
}

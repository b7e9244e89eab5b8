//! Opcodes, and the headers and payload of each.

use core::fmt;

use crate::PayloadRule;

mod headers;
mod table;

pub use headers::{CNP_RESERVED_LEN, Headers};

/// The opcode of a packet. Only the opcodes of RC, UC, UD, XRC and CNP can be represented (IBTA
/// 1.7, 9.2.1; FLUSH and ATOMIC WRITE: Annex A19; CNP: RoCEv2 Annex A17.9.3).
///
/// The upper three bits are the [`Transport`], the lower five the type of the packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(u8);

impl Opcode {
    /// The opcode with this byte, if there is one.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Opcode> {
        if table::INDEX[byte as usize] == table::UNKNOWN {
            None
        } else {
            Some(Opcode(byte))
        }
    }

    /// The byte on the wire.
    #[inline]
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The opcode with these properties, if there is one.
    pub const fn new(
        transport: Transport,
        operation: Operation,
        position: Position,
        suffix: Suffix,
    ) -> Option<Opcode> {
        use {Operation as O, Position as P, Suffix as S};
        let low = match (operation, position, suffix) {
            (O::Cnp, P::Only, S::None) => 0x01,
            (O::Send, P::First, S::None) => 0x00,
            (O::Send, P::Middle, S::None) => 0x01,
            (O::Send, P::Last, S::None) => 0x02,
            (O::Send, P::Last, S::Immediate) => 0x03,
            (O::Send, P::Only, S::None) => 0x04,
            (O::Send, P::Only, S::Immediate) => 0x05,
            (O::Write, P::First, S::None) => 0x06,
            (O::Write, P::Middle, S::None) => 0x07,
            (O::Write, P::Last, S::None) => 0x08,
            (O::Write, P::Last, S::Immediate) => 0x09,
            (O::Write, P::Only, S::None) => 0x0a,
            (O::Write, P::Only, S::Immediate) => 0x0b,
            (O::ReadRequest, P::Only, S::None) => 0x0c,
            (O::ReadResponse, P::First, S::None) => 0x0d,
            (O::ReadResponse, P::Middle, S::None) => 0x0e,
            (O::ReadResponse, P::Last, S::None) => 0x0f,
            (O::ReadResponse, P::Only, S::None) => 0x10,
            (O::Acknowledge, P::Only, S::None) => 0x11,
            (O::AtomicAcknowledge, P::Only, S::None) => 0x12,
            (O::CompareSwap, P::Only, S::None) => 0x13,
            (O::FetchAdd, P::Only, S::None) => 0x14,
            (O::Send, P::Last, S::Invalidate) => 0x16,
            (O::Send, P::Only, S::Invalidate) => 0x17,
            (O::Flush, P::Only, S::None) => 0x1c,
            (O::AtomicWrite, P::Only, S::None) => 0x1d,
            _ => return None,
        };
        // CNP's one opcode shares its lower bits with SEND Middle.
        if matches!(operation, O::Cnp) != matches!(transport, Transport::Cnp) {
            return None;
        }
        Opcode::from_byte(transport.bits() << 5 | low)
    }

    /// The table's entry for this opcode.
    #[inline]
    pub const fn info(self) -> &'static OpcodeInfo {
        // `self` exists only if the index has an entry for it.
        &table::TABLE[table::INDEX[self.0 as usize] as usize]
    }

    /// The transport service.
    #[inline]
    pub const fn transport(self) -> Transport {
        self.info().transport
    }

    /// The operation.
    #[inline]
    pub const fn operation(self) -> Operation {
        self.info().operation
    }

    /// The packet's place in its message.
    #[inline]
    pub const fn position(self) -> Position {
        self.info().position
    }

    /// Whether the packet carries immediate data or a key to invalidate.
    #[inline]
    pub const fn suffix(self) -> Suffix {
        self.info().suffix
    }

    /// Whether the packet carries immediate data.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(self.suffix(), Suffix::Immediate)
    }

    /// Whether the packet carries a key to invalidate.
    #[inline]
    pub const fn has_invalidate(self) -> bool {
        matches!(self.suffix(), Suffix::Invalidate)
    }

    /// Whether a requester sends it to a responder. A CNP is neither request nor
    /// response.
    #[inline]
    pub const fn is_request(self) -> bool {
        matches!(
            self.operation(),
            Operation::Send
                | Operation::Write
                | Operation::ReadRequest
                | Operation::CompareSwap
                | Operation::FetchAdd
                | Operation::Flush
                | Operation::AtomicWrite
        )
    }

    /// Whether a responder sends it to a requester.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(
            self.operation(),
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// All opcodes, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = Opcode> + Clone {
        table::TABLE.iter().map(|info| info.opcode)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.info().name)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({self}, {:#04x})", self.0)
    }
}

/// The table's entry for an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name, like "RC SEND Last with Immediate".
    pub name: &'static str,
    /// The transport service.
    pub transport: Transport,
    /// The operation.
    pub operation: Operation,
    /// The packet's place in its message.
    pub position: Position,
    /// The additional header of the message's last packet.
    pub suffix: Suffix,
    /// The headers between BTH and payload.
    pub headers: Headers,
    /// Bytes of those headers.
    pub headers_len: u8,
    /// The legal payload.
    pub payload: PayloadRule,
    /// The shortest payload in bytes that the rule allows for any MTU. Together with `slack`, the
    /// number of bytes by which a payload may exceed it, this expresses the rule without branches.
    shortest: u32,
    slack: u32,
}

impl OpcodeInfo {
    /// Whether the rule admits a payload of `len` bytes: the same as [`PayloadRule::admits`].
    #[inline(always)]
    pub(crate) const fn admits(&self, len: usize) -> bool {
        len.wrapping_sub(self.shortest as usize) <= self.slack as usize
    }
}

/// The transport service that an opcode belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Congestion notification, which belongs to no service.
    Cnp,
}

impl Transport {
    /// The upper three bits of its opcodes.
    #[inline]
    // rule: 9.2.1-transport-in-opcode
    pub const fn bits(self) -> u8 {
        match self {
            Transport::Rc => 0b000,
            Transport::Uc => 0b001,
            Transport::Ud => 0b011,
            Transport::Cnp => 0b100,
            Transport::Xrc => 0b101,
        }
    }

    /// The usual abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Rc => "RC",
            Transport::Uc => "UC",
            Transport::Ud => "UD",
            Transport::Xrc => "XRC",
            Transport::Cnp => "CNP",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The operation that a packet requests, or the kind of response that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Part of a SEND, which consumes a posted receive.
    Send,
    /// Part of an RDMA WRITE.
    Write,
    /// Requests bytes of memory.
    ReadRequest,
    /// Part of the requested memory, and the response to FLUSH and ATOMIC WRITE.
    ReadResponse,
    /// Acknowledges a request (ACK), or refuses one (NAK, RNR NAK).
    Acknowledge,
    /// Responds to an atomic operation with the previous value.
    AtomicAcknowledge,
    /// Requests a compare-and-swap.
    CompareSwap,
    /// Requests a fetch-and-add.
    FetchAdd,
    /// Requests that earlier writes become visible or durable.
    Flush,
    /// Requests an atomic write of eight bytes.
    AtomicWrite,
    /// Reports congestion.
    Cnp,
}

/// A packet's place in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// All of the message.
    Only,
}

/// The additional header that a message's last packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    /// Nothing.
    None,
    /// Immediate data.
    Immediate,
    /// A key to invalidate.
    Invalidate,
}

#[cfg(test)]
mod tests;

//! Opcodes, and what follows each.

use core::fmt;

use crate::Layer;

mod table;

/// The opcode of a packet: one of those that exist for RC, UC, UD, XRC and CNP
/// (IBTA 1.7, 9.2.1; FLUSH and ATOMIC WRITE: Annex A19; CNP: RoCEv2 Annex
/// A17.9.3).
///
/// The upper three bits name the [`Transport`], the lower five what the packet is.
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

    /// All that the table says of this opcode.
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

    /// What is done.
    #[inline]
    pub const fn operation(self) -> Operation {
        self.info().operation
    }

    /// The packet's place in its message.
    #[inline]
    pub const fn position(self) -> Position {
        self.info().position
    }

    /// Whether immediate data or a key to invalidate goes along.
    #[inline]
    pub const fn suffix(self) -> Suffix {
        self.info().suffix
    }

    /// Whether immediate data goes along.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        matches!(self.suffix(), Suffix::Immediate)
    }

    /// Whether a key to invalidate goes along.
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

    /// Every opcode there is, in the order of the table.
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

/// What the table says of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name, like "RC SEND Last with Immediate".
    pub name: &'static str,
    /// The transport service.
    pub transport: Transport,
    /// What is done.
    pub operation: Operation,
    /// The packet's place in its message.
    pub position: Position,
    /// What goes along with the message's last packet.
    pub suffix: Suffix,
    /// The headers between BTH and payload.
    pub headers: Headers,
    /// Bytes of those headers.
    pub headers_len: u8,
    /// What payload is legal.
    pub payload: PayloadRule,
    /// The shortest payload for which the rule, whatever the MTU, is kept, and how much
    /// longer than that it may be: the rule in a form that needs no branch.
    shortest: u32,
    slack: u32,
}

impl OpcodeInfo {
    /// Whether a payload of `len` bytes is legal for some path MTU or other: the same
    /// as [`PayloadRule::admits`] of the rule.
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
    /// Congestion notification, which is of no service.
    Cnp,
}

impl Transport {
    /// The upper three bits of its opcodes.
    #[inline]
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

/// What a packet does or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Part of a message for a posted receive.
    Send,
    /// Part of an RDMA WRITE.
    Write,
    /// Asks for memory to be read.
    ReadRequest,
    /// Part of the memory read, and the answer to FLUSH and ATOMIC WRITE.
    ReadResponse,
    /// Acknowledges, or refuses.
    Acknowledge,
    /// Answers an atomic operation with the previous value.
    AtomicAcknowledge,
    /// Asks for a compare-and-swap.
    CompareSwap,
    /// Asks for a fetch-and-add.
    FetchAdd,
    /// Asks for earlier writes to be made visible or durable.
    Flush,
    /// Asks for eight bytes to be written at once.
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

/// What goes along with a message's last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suffix {
    /// Nothing.
    None,
    /// Immediate data.
    Immediate,
    /// A key to invalidate.
    Invalidate,
}

/// A set of headers that may stand between BTH and payload. Whatever set it is,
/// they stand in the order in which they are listed here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Headers(u16);

impl Headers {
    /// No header.
    pub const NONE: Headers = Headers(0);
    /// [`crate::XrcEth`], 4 bytes.
    pub const XRCETH: Headers = Headers(1 << 0);
    /// [`crate::Deth`], 8 bytes.
    pub const DETH: Headers = Headers(1 << 1);
    /// [`crate::Feth`], 4 bytes.
    pub const FETH: Headers = Headers(1 << 2);
    /// [`crate::Reth`], 16 bytes.
    pub const RETH: Headers = Headers(1 << 3);
    /// [`crate::AtomicEth`], 28 bytes.
    pub const ATOMIC: Headers = Headers(1 << 4);
    /// [`crate::Aeth`], 4 bytes.
    pub const AETH: Headers = Headers(1 << 5);
    /// [`crate::AtomicAckEth`], 8 bytes.
    pub const ATOMIC_ACK: Headers = Headers(1 << 6);
    /// [`crate::ImmDt`], 4 bytes.
    pub const IMM: Headers = Headers(1 << 7);
    /// [`crate::Ieth`], 4 bytes.
    pub const IETH: Headers = Headers(1 << 8);
    /// The reserved bytes of a CNP, [`crate::CNP_RESERVED_LEN`] of them.
    pub const CNP: Headers = Headers(1 << 9);

    /// Whether all of `other` is in the set.
    #[inline]
    pub const fn contains(self, other: Headers) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Headers) -> Headers {
        Headers(self.0 | other.0)
    }

    /// The headers of the set, in the order in which they stand, with their bytes.
    pub fn iter(self) -> impl Iterator<Item = (Layer, usize)> {
        (0..BY_BIT.len())
            .filter(move |bit| self.0 >> bit & 1 != 0)
            .map(|bit| BY_BIT[bit])
    }

    /// How many bytes the headers take in all.
    pub const fn byte_len(self) -> usize {
        let mut sum = 0;
        let mut bit = 0;
        while bit < BY_BIT.len() {
            if self.0 >> bit & 1 != 0 {
                sum += BY_BIT[bit].1;
            }
            bit += 1;
        }
        sum
    }
}

/// Each header and its bytes, by bit.
const BY_BIT: [(Layer, usize); 10] = [
    (Layer::XrcEth, crate::XrcEth::LEN),
    (Layer::Deth, crate::Deth::LEN),
    (Layer::Feth, crate::Feth::LEN),
    (Layer::Reth, crate::Reth::LEN),
    (Layer::AtomicEth, crate::AtomicEth::LEN),
    (Layer::Aeth, crate::Aeth::LEN),
    (Layer::AtomicAckEth, crate::AtomicAckEth::LEN),
    (Layer::ImmDt, crate::ImmDt::LEN),
    (Layer::Ieth, crate::Ieth::LEN),
    (Layer::Cnp, crate::CNP_RESERVED_LEN),
];

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(layer, _)| layer))
            .finish()
    }
}

/// What payload an opcode allows, counted without padding (IBTA 1.7, 9.2 and
/// 9.7.4.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// None at all.
    None,
    /// Exactly the path MTU: first and middle packets.
    ExactlyMtu,
    /// At least one byte, at most the path MTU: last packets.
    OneToMtu,
    /// Up to the path MTU: only packets.
    UpToMtu,
    /// Exactly eight bytes: ATOMIC WRITE.
    Eight,
}

impl PayloadRule {
    /// Whether `len` bytes are legal for some path MTU or other. First and middle
    /// packets are let through at any length but zero: whether it is the path's MTU
    /// is for the queue pair to judge, which owes the peer an answer.
    #[inline]
    pub const fn admits(self, len: usize) -> bool {
        let (shortest, longest) = self.bounds();
        shortest as usize <= len && len <= longest as usize
    }

    /// The shortest and the longest payload that is legal for some path MTU or other;
    /// no packet is longer than 2^32 bytes.
    const fn bounds(self) -> (u32, u32) {
        match self {
            PayloadRule::None => (0, 0),
            PayloadRule::ExactlyMtu | PayloadRule::OneToMtu => (1, u32::MAX),
            PayloadRule::UpToMtu => (0, u32::MAX),
            PayloadRule::Eight => (8, 8),
        }
    }

    /// Whether `len` bytes are legal on a path with this MTU.
    #[inline]
    pub const fn admits_on(self, len: usize, mtu: crate::PathMtu) -> bool {
        match self {
            PayloadRule::None => len == 0,
            PayloadRule::ExactlyMtu => len == mtu.bytes(),
            PayloadRule::OneToMtu => len != 0 && len <= mtu.bytes(),
            PayloadRule::UpToMtu => len <= mtu.bytes(),
            PayloadRule::Eight => len == 8,
        }
    }
}

impl fmt::Display for PayloadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadRule::None => "none",
            PayloadRule::ExactlyMtu => "exactly the path MTU",
            PayloadRule::OneToMtu => "1 byte to the path MTU",
            PayloadRule::UpToMtu => "0 bytes to the path MTU",
            PayloadRule::Eight => "exactly 8 bytes",
        })
    }
}

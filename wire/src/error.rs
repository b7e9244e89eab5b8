//! The errors of parsing.

use core::fmt;

use crate::PayloadRule;

/// The header, or the part of a frame, that contains an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The Ethernet header.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// The IPv4 header.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// The UDP header.
    Udp,
    /// The global route header of RoCE v1.
    Grh,
    /// The base transport header.
    Bth,
    /// The RDMA extended transport header.
    Reth,
    /// The ACK extended transport header.
    Aeth,
    /// The atomic extended transport header.
    AtomicEth,
    /// The atomic ACK extended transport header.
    AtomicAckEth,
    /// The datagram extended transport header.
    Deth,
    /// The XRC extended transport header.
    XrcEth,
    /// The immediate data.
    ImmDt,
    /// The invalidate extended transport header.
    Ieth,
    /// The flush extended transport header.
    Feth,
    /// The 16 reserved bytes of a congestion notification packet.
    Cnp,
    /// The header of a management datagram.
    Mad,
    /// A communication management message.
    Cm,
    /// The payload.
    Payload,
    /// The invariant CRC.
    Icrc,
}

impl Layer {
    /// The name in the specifications.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Ethernet => "Ethernet",
            Layer::Vlan => "VLAN tag",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Udp => "UDP",
            Layer::Grh => "GRH",
            Layer::Bth => "BTH",
            Layer::Reth => "RETH",
            Layer::Aeth => "AETH",
            Layer::AtomicEth => "AtomicETH",
            Layer::AtomicAckEth => "AtomicAckETH",
            Layer::Deth => "DETH",
            Layer::XrcEth => "XRCETH",
            Layer::ImmDt => "ImmDt",
            Layer::Ieth => "IETH",
            Layer::Feth => "FETH",
            Layer::Cnp => "CNP",
            Layer::Mad => "MAD",
            Layer::Cm => "CM",
            Layer::Payload => "payload",
            Layer::Icrc => "ICRC",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why a field was rejected, with the value found and the valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The input ends before the end of the header or the field.
    Truncated {
        /// The number of bytes left.
        available: u32,
        /// The number of bytes needed.
        needed: u32,
    },
    /// The field has a value that is not legal.
    Unsupported {
        /// The value found.
        found: u32,
        /// The legal values, in words.
        expected: &'static str,
    },
    /// The field's value is above what the rest of the packet allows.
    TooLarge {
        /// The value found.
        found: u32,
        /// The largest legal value.
        limit: u32,
    },
    /// The field's value is below what the rest of the packet allows.
    TooSmall {
        /// The value found.
        found: u32,
        /// The smallest legal value.
        limit: u32,
    },
    /// The payload's length, without padding, breaks the rule of the opcode.
    PayloadLength {
        /// The length of the payload in bytes.
        found: u32,
        /// The rule of the packet's opcode.
        rule: PayloadRule,
    },
    /// The packet is a fragment of an IPv4 datagram, which RoCEv2 does not allow.
    Fragment {
        /// The 16 bits of flags and fragment offset.
        flags_fragment: u16,
    },
}

/// Bytes that are not a legal packet: the layer, the field and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// The header that the field belongs to.
    pub layer: Layer,
    /// The field's name in the specification, in lower case.
    pub field: &'static str,
    /// The reason.
    pub reason: Reason,
}

impl ParseError {
    #[cold]
    pub(crate) const fn truncated(layer: Layer, available: usize, needed: usize) -> Self {
        Self {
            layer,
            field: "header",
            reason: Reason::Truncated {
                available: saturate(available),
                needed: saturate(needed),
            },
        }
    }

    #[cold]
    pub(crate) const fn unsupported(
        layer: Layer,
        field: &'static str,
        found: u32,
        expected: &'static str,
    ) -> Self {
        Self {
            layer,
            field,
            reason: Reason::Unsupported { found, expected },
        }
    }

    #[cold]
    pub(crate) const fn too_large(
        layer: Layer,
        field: &'static str,
        found: usize,
        limit: usize,
    ) -> Self {
        Self {
            layer,
            field,
            reason: Reason::TooLarge {
                found: saturate(found),
                limit: saturate(limit),
            },
        }
    }

    #[cold]
    pub(crate) const fn too_small(
        layer: Layer,
        field: &'static str,
        found: usize,
        limit: usize,
    ) -> Self {
        Self {
            layer,
            field,
            reason: Reason::TooSmall {
                found: saturate(found),
                limit: saturate(limit),
            },
        }
    }
}

/// Converts a length for an error message. Lengths above `u32::MAX` become `u32::MAX`.
pub(crate) const fn saturate(n: usize) -> u32 {
    if n > u32::MAX as usize {
        u32::MAX
    } else {
        n as u32
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.layer, self.field)?;
        match self.reason {
            Reason::Truncated { available, needed } => {
                write!(f, "needs {needed} bytes, {available} are left")
            }
            Reason::Unsupported { found, expected } => {
                write!(f, "found {found:#x}, expected {expected}")
            }
            Reason::TooLarge { found, limit } => {
                write!(f, "found {found}, expected at most {limit}")
            }
            Reason::TooSmall { found, limit } => {
                write!(f, "found {found}, expected at least {limit}")
            }
            Reason::PayloadLength { found, rule } => {
                write!(f, "found {found} bytes, expected {rule}")
            }
            Reason::Fragment { flags_fragment } => write!(
                f,
                "found {flags_fragment:#06x}, a fragment; RoCEv2 packets are never fragmented"
            ),
        }
    }
}

impl fmt::Debug for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ParseError {}

//! A transport packet: from the BTH to the ICRC.

use crate::error::saturate;
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, CNP_RESERVED_LEN, Deth, Feth, Headers, Ieth, ImmDt, Layer,
    ParseError, PayloadRule, Reason, Reth, XrcEth,
};

/// Bytes of the invariant CRC at the end of every packet.
pub const ICRC_LEN: usize = 4;

/// The headers between BTH and payload, if the packet has them.
///
/// The opcode determines which those are: see [`OpcodeInfo::headers`](crate::OpcodeInfo::headers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtHeaders {
    /// XRC requests.
    pub xrceth: Option<XrcEth>,
    /// Datagrams.
    pub deth: Option<Deth>,
    /// FLUSH.
    pub flush: Option<Feth>,
    /// RDMA WRITE's first packet, RDMA READ requests, FLUSH, ATOMIC WRITE.
    pub reth: Option<Reth>,
    /// Compare-and-swap, fetch-and-add.
    pub atomic: Option<AtomicEth>,
    /// Acknowledgements, and RDMA READ responses except middle ones.
    pub aeth: Option<Aeth>,
    /// The response to an atomic operation.
    pub atomic_ack: Option<AtomicAckEth>,
    /// With immediate.
    pub imm: Option<ImmDt>,
    /// With invalidate.
    pub ieth: Option<Ieth>,
}

/// A parsed packet, whose payload stays in the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The headers that follow it.
    pub ext: ExtHeaders,
    /// The payload, without padding.
    pub payload: &'a [u8],
    /// The stored invariant CRC, in the form that [`crate::icrc::compute`] returns. Parsing does
    /// not check it.
    pub icrc: u32,
}

impl<'a> Packet<'a> {
    /// Parses `transport`, the bytes from the BTH to the ICRC, both included: the
    /// payload of the UDP datagram.
    ///
    /// It checks the opcode, the version, that headers and padding fit, and the part of the
    /// opcode's payload rule that does not depend on the path MTU
    /// ([`PayloadRule::admits`](crate::PayloadRule::admits)). It ignores reserved bits and the
    /// value of the ICRC: see [`crate::icrc::verify`].
    ///
    /// # Errors
    /// The first field that is wrong, from front to back.
    #[inline]
    pub fn parse(transport: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        Packet::parse_with(transport, |packet| *packet)
    }

    /// Parses `transport` as [`Packet::parse`] does, and passes the packet to `take`. The packet is
    /// built in place and never moved.
    ///
    /// # Errors
    /// As for [`Packet::parse`]; `take` is not called then.
    #[inline(always)]
    pub fn parse_with<R>(
        transport: &'a [u8],
        take: impl FnOnce(&Packet<'a>) -> R,
    ) -> Result<R, ParseError> {
        let Some((bth, rest)) = transport.split_first_chunk() else {
            return Err(ParseError::truncated(Layer::Bth, transport.len(), Bth::LEN));
        };
        let bth = Bth::from_bytes(bth)?;
        // rule: 9.2.5-version-checked
        if bth.version != 0 {
            return Err(version(bth.version));
        }
        let info = bth.opcode.info();
        let headers_len = usize::from(info.headers_len);
        let pad = usize::from(bth.pad);
        // One comparison checks all lengths. The error path finds out which length is wrong.
        let Some(len) = rest.len().checked_sub(headers_len + pad + ICRC_LEN) else {
            // rule: 9.2.4-pad-fits
            return Err(too_short(info.headers, pad, rest.len()));
        };
        if !info.admits(len) {
            return Err(payload_length(len, info.payload));
        }
        let (ext, rest) = rest.split_at(headers_len);
        // rule: 9.2.4-pad-removed
        let (payload, rest) = rest.split_at(len);
        let icrc = rest.last_chunk().copied().unwrap_or_default();
        let mut packet = Packet {
            bth,
            ext: ExtHeaders::NONE,
            payload,
            icrc: u32::from_le_bytes(icrc),
        };
        // Fill the headers in place. Copying headers whose fields were just written would wait for
        // all earlier stores, including those of a payload.
        packet.ext.fill(info.headers, ext);
        Ok(take(&packet))
    }

    /// The representation that emits this packet's headers again.
    #[inline]
    pub fn repr(&self) -> PacketRepr {
        PacketRepr {
            bth: self.bth,
            ext: self.ext,
        }
    }
}

impl ExtHeaders {
    /// No header.
    pub const NONE: ExtHeaders = ExtHeaders {
        xrceth: None,
        deth: None,
        flush: None,
        reth: None,
        atomic: None,
        aeth: None,
        atomic_ack: None,
        imm: None,
        ieth: None,
    };

    /// Parses the headers of the set `headers` from the front of `bytes`. Returns them and the
    /// bytes behind them.
    ///
    /// # Errors
    /// The first header that does not fit.
    pub fn parse(headers: Headers, bytes: &[u8]) -> Result<(ExtHeaders, &[u8]), ParseError> {
        match bytes.split_at_checked(headers.byte_len()) {
            Some((ext, rest)) => Ok((ExtHeaders::read_any(headers, ext), rest)),
            None => Err(too_short(headers, 0, bytes.len())),
        }
    }

    /// Reads the headers of the set `headers` from `bytes`, which must be exactly as long as these
    /// headers. `self` must have no headers.
    #[inline(always)]
    fn fill(&mut self, headers: Headers, bytes: &[u8]) {
        // The most frequent header sets are read without a test for each header.
        match headers {
            Headers::NONE => {}
            Headers::RETH => self.reth = bytes.first_chunk().map(Reth::from_bytes),
            Headers::AETH => self.aeth = bytes.first_chunk().map(Aeth::from_bytes),
            Headers::IMM => self.imm = bytes.first_chunk().map(ImmDt::from_bytes),
            _ => *self = ExtHeaders::read_any(headers, bytes),
        }
    }

    /// Reads the headers of any set from exactly as many bytes as they have.
    #[inline(never)]
    // rule: 9.2.1-headers-of-opcode
    fn read_any(headers: Headers, bytes: &[u8]) -> ExtHeaders {
        let has = |header| headers.contains(header);
        let rest = &mut { bytes };
        // rule: 9.2.1-header-order
        // A struct expression is evaluated in the order in which it is written.
        ExtHeaders {
            xrceth: take(has(Headers::XRCETH), rest, XrcEth::from_bytes),
            deth: take(has(Headers::DETH), rest, Deth::from_bytes),
            flush: take(has(Headers::FETH), rest, Feth::from_bytes),
            reth: take(has(Headers::RETH), rest, Reth::from_bytes),
            atomic: take(has(Headers::ATOMIC), rest, AtomicEth::from_bytes),
            aeth: take(has(Headers::AETH), rest, Aeth::from_bytes),
            atomic_ack: take(has(Headers::ATOMIC_ACK), rest, AtomicAckEth::from_bytes),
            imm: take(has(Headers::IMM), rest, ImmDt::from_bytes),
            ieth: take(has(Headers::IETH), rest, Ieth::from_bytes),
        }
    }

    /// Writes the headers of the set `headers` to the front of `buf`. Returns their length in
    /// bytes. A header of the set that is missing here is written as its default; a header that is
    /// not in the set is not written.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Headers::byte_len`] of `headers`.
    #[inline]
    pub fn emit(&self, headers: Headers, buf: &mut [u8]) -> usize {
        // The most frequent header sets are written without a test for each header.
        match headers {
            Headers::NONE => 0,
            Headers::RETH => {
                self.reth.unwrap_or_default().emit(buf);
                Reth::LEN
            }
            Headers::AETH => {
                self.aeth.unwrap_or_default().emit(buf);
                Aeth::LEN
            }
            _ => self.emit_any(headers, buf),
        }
    }

    /// Writes the headers of any set.
    #[inline(never)]
    fn emit_any(&self, headers: Headers, buf: &mut [u8]) -> usize {
        let mut at = 0;
        macro_rules! put {
            ($set:ident, $field:ident, $type:ident) => {
                if headers.contains(Headers::$set) {
                    self.$field.unwrap_or_default().emit(&mut buf[at..]);
                    at += $type::LEN;
                }
            };
        }
        put!(XRCETH, xrceth, XrcEth);
        put!(DETH, deth, Deth);
        put!(FETH, flush, Feth);
        put!(RETH, reth, Reth);
        put!(ATOMIC, atomic, AtomicEth);
        put!(AETH, aeth, Aeth);
        put!(ATOMIC_ACK, atomic_ack, AtomicAckEth);
        put!(IMM, imm, ImmDt);
        put!(IETH, ieth, Ieth);
        if headers.contains(Headers::CNP) {
            // rule: A17.9.3-cnp-reserved
            buf[at..][..CNP_RESERVED_LEN].fill(0);
            at += CNP_RESERVED_LEN;
        }
        at
    }
}

/// Takes a header off the front of `rest`, if the packet has it.
#[inline(always)]
fn take<const LEN: usize, H>(
    is_there: bool,
    rest: &mut &[u8],
    read: impl FnOnce(&[u8; LEN]) -> H,
) -> Option<H> {
    let (header, after) = rest.split_first_chunk().filter(|_| is_there)?;
    *rest = after;
    Some(read(header))
}

#[cold]
fn version(found: u8) -> ParseError {
    ParseError::unsupported(Layer::Bth, "version", found.into(), "0")
}

#[cold]
fn payload_length(found: usize, rule: PayloadRule) -> ParseError {
    ParseError {
        layer: Layer::Payload,
        field: "length",
        reason: Reason::PayloadLength {
            found: saturate(found),
            rule,
        },
    }
}

/// The error for the first part that does not fit in the `available` bytes after the BTH: one of
/// the headers, the ICRC or the padding.
#[cold]
fn too_short(headers: Headers, pad: usize, available: usize) -> ParseError {
    let mut left = available;
    for (layer, len) in headers.iter() {
        match left.checked_sub(len) {
            Some(after) => left = after,
            None => return ParseError::truncated(layer, left, len),
        }
    }
    match left.checked_sub(ICRC_LEN) {
        None => ParseError::truncated(Layer::Icrc, left, ICRC_LEN),
        Some(padded) => ParseError::too_large(Layer::Bth, "pad count", pad, padded),
    }
}

/// The headers of a packet to send.
///
/// ```
/// use roce_wire::{Bth, ExtHeaders, ICRC_LEN, Opcode, Packet, PacketRepr, Psn, Qpn};
///
/// let payload = b"hello";
/// let repr = PacketRepr {
///     bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::from_bits(17), Psn::new(3)),
///     ext: ExtHeaders::default(),
/// };
/// let mut buf = [0; 64];
/// let transport = &mut buf[..repr.buffer_len(payload.len())];
/// let at = repr.emit_headers(transport, payload.len());
/// transport[at..][..payload.len()].copy_from_slice(payload);
/// // `icrc::seal` writes the ICRC to the last four bytes.
///
/// let packet = Packet::parse(transport).unwrap();
/// assert_eq!(packet.payload, payload);
/// assert_eq!(packet.bth.pad, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRepr {
    /// The base transport header; the pad count is set by
    /// [`PacketRepr::emit_headers`].
    pub bth: Bth,
    /// The headers that follow it.
    pub ext: ExtHeaders,
}

impl PacketRepr {
    /// Bytes from the BTH to the payload, with the headers of the opcode.
    #[inline]
    pub const fn header_len(&self) -> usize {
        Bth::LEN + self.bth.opcode.info().headers_len as usize
    }

    /// Bytes of the whole packet: headers, payload, padding and ICRC.
    #[inline]
    pub const fn buffer_len(&self, payload_len: usize) -> usize {
        self.header_len() + payload_len.next_multiple_of(4) + ICRC_LEN
    }

    /// Writes the headers of the opcode, with the pad count for `payload_len`, and the padding, as
    /// zeros. Returns the offset of the payload in `buf`; the caller writes the payload and the
    /// ICRC.
    ///
    /// A missing extended header of the opcode is written as its default; headers of other opcodes
    /// are not written.
    ///
    /// # Panics
    /// If `buf` is shorter than [`PacketRepr::buffer_len`].
    #[inline]
    pub fn emit_headers(&self, buf: &mut [u8], payload_len: usize) -> usize {
        let buf = &mut buf[..self.buffer_len(payload_len)];
        // rule: 9.2.4-pad-count
        let pad = payload_len.wrapping_neg() & 3;
        let bth = Bth {
            pad: pad as u8,
            ..self.bth
        };
        bth.emit(buf);
        let payload_at = Bth::LEN
            + self
                .ext
                .emit(bth.opcode.info().headers, &mut buf[Bth::LEN..]);
        // rule: 9.2.4-pad-zero
        if pad > 0 {
            buf[payload_at + payload_len..][..pad].fill(0);
        }
        payload_at
    }
}

#[cfg(test)]
mod tests;

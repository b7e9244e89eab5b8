//! Link types, which determine the first header of a captured packet.

use super::tunnel::{self, Next, Tunnel};
use roce_wire::{Frame, Layer, ParseError, Reason, UDP_PORT, VlanTag};

/// The link types that [`parse`] knows, for error messages.
pub(super) const SUPPORTED: &str = "Ethernet (1), raw IP (12, 14, 101), Linux cooked (113), \
                                    IPv4 (228), IPv6 (229) or Linux cooked v2 (276)";

const ETHERNET: u16 = 1;
const LINUX_COOKED: u16 = 113;
const LINUX_COOKED_2: u16 = 276;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
/// Raw IP of either version: the standard number, and the two that some systems use instead.
const RAW: [u16; 3] = [101, 12, 14];

const COOKED_LEN: usize = 16;
const COOKED_2_LEN: usize = 20;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];

/// Whether [`parse`] knows the link type.
pub(super) fn is_supported(link_type: u16) -> bool {
    matches!(
        link_type,
        ETHERNET | LINUX_COOKED | LINUX_COOKED_2 | IPV4 | IPV6
    ) || RAW.contains(&link_type)
}

/// A frame, and the length of what is in front of the headers that [`Frame`] describes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linked<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) link_len: usize,
    pub(super) tunnel: Tunnel,
}

/// Why [`parse`] finds no RoCE packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoFrame {
    /// It is not a RoCE packet, or is broken before its transport headers.
    Error(ParseError),
    /// It is one behind IPv6 extension headers.
    Extensions,
}

impl From<ParseError> for NoFrame {
    fn from(error: ParseError) -> Self {
        Self::Error(error)
    }
}

/// Parses a captured packet that goes to one of `ports`, which may be inside of a [tunnel].
///
/// # Errors
/// If there is no RoCE packet, or it is broken before its transport headers.
pub(super) fn parse<'a>(
    link_type: u16,
    bytes: &'a [u8],
    ports: &[u16],
) -> Result<Linked<'a>, NoFrame> {
    let (next, link_len) = link(link_type, bytes)?;
    let outer = parse_at(bytes, link_len, next, ports);
    let is_foreign = |error: &ParseError| matches!(error.reason, Reason::Unsupported { .. });
    match outer {
        Ok(frame) => Ok(Linked {
            frame,
            link_len,
            tunnel: Tunnel::default(),
        }),
        Err(error) if is_foreign(&error) => match tunnel::find(bytes, link_len, next, ports) {
            None => Err(error.into()),
            Some(inner) if inner.has_extensions => Err(NoFrame::Extensions),
            Some(inner) => Ok(Linked {
                frame: parse_at(bytes, inner.at, inner.begins_with, ports)?,
                link_len: inner.at,
                tunnel: inner.tunnel,
            }),
        },
        Err(error) => Err(error.into()),
    }
}

/// The header at the start of a packet, after a link header that [`Frame`] does not know and its length.
fn link(link_type: u16, bytes: &[u8]) -> Result<(Next, usize), ParseError> {
    let (ethertype, link_len) = match link_type {
        ETHERNET => return Ok((Next::Ethernet, 0)),
        LINUX_COOKED => cooked(bytes, 14, COOKED_LEN)?,
        LINUX_COOKED_2 => cooked(bytes, 0, COOKED_2_LEN)?,
        IPV4 => (ETHERTYPE_IPV4, 0),
        IPV6 => (ETHERTYPE_IPV6, 0),
        // Raw IP: the version is in the first four bits.
        _ if bytes.first().is_some_and(|first| first >> 4 == 6) => (ETHERTYPE_IPV6, 0),
        _ => (ETHERTYPE_IPV4, 0),
    };
    Ok((Next::EtherType(ethertype), link_len))
}

/// Parses a frame that begins at `at` and goes to one of `ports`.
fn parse_at<'a>(
    bytes: &'a [u8],
    at: usize,
    next: Next,
    ports: &[u16],
) -> Result<Frame<'a>, ParseError> {
    let bytes = bytes.get(at..).unwrap_or_default();
    let parse_on = |port| match next {
        Next::EtherType(ethertype) => Frame::parse_l3_on(ethertype, bytes, port),
        Next::Ethernet | Next::Protocol(_) => Frame::parse_ethernet_on(bytes, port),
    };
    let result = parse_on(UDP_PORT);
    match result {
        Err(ParseError {
            layer: Layer::Udp,
            reason: Reason::Unsupported { found, .. },
            ..
        }) => match ports.iter().find(|&&port| found == u32::from(port)) {
            Some(&port) => parse_on(port),
            None => result,
        },
        _ => result,
    }
}

/// The EtherType in a Linux cooked header, and the header's length including the VLAN tags that
/// follow it.
fn cooked(bytes: &[u8], at: usize, header_len: usize) -> Result<(u16, usize), ParseError> {
    let ethertype = |at: usize| match bytes.get(at..at + 2) {
        Some(&[a, b]) => u16::from_be_bytes([a, b]),
        _ => 0,
    };
    let truncated = |needed: usize| ParseError {
        layer: Layer::Ethernet,
        field: "Linux cooked header",
        reason: Reason::Truncated {
            available: bytes.len() as u32,
            needed: needed as u32,
        },
    };
    if bytes.len() < header_len {
        return Err(truncated(header_len));
    }
    let mut found = ethertype(at);
    let mut len = header_len;
    while ETHERTYPES_VLAN.contains(&found) && len < header_len + 2 * VlanTag::LEN {
        if bytes.len() < len + VlanTag::LEN {
            return Err(truncated(len + VlanTag::LEN));
        }
        found = ethertype(len + 2);
        len += VlanTag::LEN;
    }
    Ok((found, len))
}

//! Link types, which determine the first header of a captured packet.

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

/// A frame, and the length of a link header that [`Frame::link`] does not describe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linked<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) link_len: usize,
}

/// Parses a captured packet that goes to one of `ports`, or to [`UDP_PORT`].
///
/// # Errors
/// If it is not a RoCE packet, or is broken before its transport headers.
pub(super) fn parse<'a>(
    link_type: u16,
    bytes: &'a [u8],
    ports: &[u16],
) -> Result<Linked<'a>, ParseError> {
    let result = parse_on(link_type, bytes, UDP_PORT);
    match result {
        Err(ParseError {
            layer: Layer::Udp,
            reason: Reason::Unsupported { found, .. },
            ..
        }) => match ports.iter().find(|&&port| found == u32::from(port)) {
            Some(&port) => parse_on(link_type, bytes, port),
            None => result,
        },
        _ => result,
    }
}

fn parse_on(link_type: u16, bytes: &[u8], port: u16) -> Result<Linked<'_>, ParseError> {
    let (ethertype, link_len) = match link_type {
        ETHERNET => {
            let frame = Frame::parse_ethernet_on(bytes, port)?;
            return Ok(Linked { frame, link_len: 0 });
        }
        LINUX_COOKED => cooked(bytes, 14, COOKED_LEN)?,
        LINUX_COOKED_2 => cooked(bytes, 0, COOKED_2_LEN)?,
        IPV4 => (ETHERTYPE_IPV4, 0),
        IPV6 => (ETHERTYPE_IPV6, 0),
        // Raw IP: the version is in the first four bits.
        _ if bytes.first().is_some_and(|first| first >> 4 == 6) => (ETHERTYPE_IPV6, 0),
        _ => (ETHERTYPE_IPV4, 0),
    };
    let frame = Frame::parse_l3_on(ethertype, &bytes[link_len..], port)?;
    Ok(Linked { frame, link_len })
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

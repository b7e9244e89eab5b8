//! Parses received frames.

use std::hint::cold_path;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_stack::{IpCovered, RxMeta};
use roce_wire::{
    Frame, Layer, Link as FrameLink, NetworkHeader, ParseError, Reason, UDP_PORT, VlanTag,
};

use super::checksum;
use super::facts::{Mac, group_mac};
use super::reasons::RxDrop;
use super::template::checksum_holds;

const V4_LEN: usize = 20;
const UDP_LEN: usize = 8;
const ETHERNET_LEN: usize = 14;
/// The bits of the flags and fragment offset that mark a fragment.
const FRAGMENT: u16 = 0x3fff;

/// The station that a frame must be addressed to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station<'a> {
    /// The interface's Ethernet address.
    pub(super) mac: Mac,
    /// The VLAN of its frames, if they carry a tag.
    pub(super) vlan: Option<VlanTag>,
    /// The interface's addresses.
    pub(super) addresses: &'a [IpAddr],
    /// The multicast groups that were joined.
    pub(super) groups: &'a [IpAddr],
    /// Whether to accept frames of RoCE v1.
    pub(super) roce_v1: bool,
}

/// A RoCE packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The header fields that the stack needs.
    pub meta: RxMeta,
    /// The bytes from the BTH to the ICRC, without the padding of short frames.
    pub transport: &'a [u8],
}

/// Parses a frame of the most common form: to this Ethernet address and one of these IP addresses,
/// untagged, IPv4 without options, and valid. Returns `None` for any other frame, including frames
/// from or to a reserved IPv4 address. The caller passes such frames to [`Station::parse`].
#[inline]
pub(super) fn parse_usual<'f>(
    mac: &Mac,
    addresses: &[IpAddr],
    bytes: &'f [u8],
) -> Option<Received<'f>> {
    const HEADERS_LEN: usize = ETHERNET_LEN + V4_LEN + UDP_LEN;
    /// The first octets of unicast addresses: above "this network" (0), below multicast and
    /// broadcast. The check below also excludes loopback (127).
    const UNICAST: core::ops::Range<u8> = 1..224;
    let header = bytes.first_chunk::<HEADERS_LEN>()?;
    // Four loads of eight bytes: from the EtherType to the identification, from the flags to the
    // first half of the source address, both addresses, and the UDP header. Few large loads are
    // faster than many small ones.
    let (kind, after) = (word::<12, _>(header), word::<20, _>(header));
    let (addresses_at, udp) = (word::<26, _>(header), word::<34, _>(header));
    let (ip_len, udp_len) = ((kind >> 16) as u16, (udp >> 16) as u16);
    let flags_fragment = (after >> 48) as u16;
    let (a, b) = (word::<14, _>(header), word::<22, _>(header));
    let [src, dst] = [(addresses_at >> 32) as u32, addresses_at as u32];
    let sum = halves(a) + halves(b) + u64::from(dst);
    // EtherType, version and length of the header; protocol; destination port.
    let is_usual = kind >> 40 == 0x0008_0045
        && (after >> 32) as u8 == 17
        && (udp >> 32) as u16 == UDP_PORT
        && header[..6] == *mac
        && flags_fragment & FRAGMENT == 0
        && u32::from(ip_len) == V4_LEN as u32 + u32::from(udp_len)
        && checksum::fold(sum) == 0xffff
        && [src, dst].iter().all(|address| {
            let first = (address >> 24) as u8;
            UNICAST.contains(&first) && first != 127
        });
    if !is_usual {
        cold_path();
        return None;
    }
    let [src, dst] = [src, dst].map(|address| IpAddr::V4(Ipv4Addr::from_bits(address)));
    if !addresses.contains(&dst) {
        cold_path();
        return None;
    }
    Some(Received {
        meta: RxMeta {
            src,
            dst,
            src_port: (udp >> 48) as u16,
            traffic_class: (kind >> 32) as u8,
            ip: IpCovered::V4 {
                id: kind as u16,
                flags_fragment,
            },
        },
        transport: bytes.get(HEADERS_LEN..ETHERNET_LEN + usize::from(ip_len))?,
    })
}

/// Eight bytes of a header, in big-endian order.
#[inline(always)]
fn word<const AT: usize, const LEN: usize>(header: &[u8; LEN]) -> u64 {
    const { assert!(AT + 8 <= LEN) };
    u64::from_be_bytes(core::array::from_fn(|i| header[AT + i]))
}

/// The sum of the two 32-bit halves of a word, which is its contribution to a checksum.
#[inline(always)]
fn halves(word: u64) -> u64 {
    (word >> 32) + (word & 0xffff_ffff)
}

impl Station<'_> {
    /// Parses a whole frame, from the Ethernet header to the end, without its frame check sequence.
    pub(super) fn parse<'f>(&self, bytes: &'f [u8]) -> Result<Received<'f>, RxDrop> {
        let frame = Frame::parse_ethernet(bytes).map_err(|error| reason_of(&error))?;
        let Some(link) = frame.link else {
            return Err(RxDrop::Truncated);
        };
        self.check_vlan(&link)?;
        let (src, dst, traffic_class, ip) = match frame.network {
            // rule: CA17-3-header-length
            NetworkHeader::V4 { options, .. } if !options.is_empty() => {
                return Err(RxDrop::Ipv4Options);
            }
            NetworkHeader::V4 {
                src,
                dst,
                tos,
                id,
                flags_fragment,
                ..
            } => {
                let tags = link.vlans.iter().flatten().count();
                let ip_at = ETHERNET_LEN + VlanTag::LEN * tags;
                let header = bytes.get(ip_at..ip_at + V4_LEN);
                if !header.is_some_and(checksum_holds) {
                    return Err(RxDrop::Ipv4Checksum);
                }
                let ip = IpCovered::V4 { id, flags_fragment };
                (IpAddr::from(src), IpAddr::from(dst), tos, ip)
            }
            NetworkHeader::V6 {
                src,
                dst,
                traffic_class,
                ..
            } => (src.into(), dst.into(), traffic_class, IpCovered::V6),
            // rule: A16-grh
            NetworkHeader::Grh(grh) if self.roce_v1 => (
                address_of(grh.sgid),
                address_of(grh.dgid),
                grh.traffic_class,
                IpCovered::Grh,
            ),
            NetworkHeader::Grh(_) => return Err(RxDrop::RoceV1),
        };
        self.check_addresses(&link, src, dst)?;
        Ok(Received {
            meta: RxMeta {
                src,
                dst,
                src_port: frame.udp.map_or(0, |udp| udp.src_port),
                traffic_class,
                ip,
            },
            transport: frame.transport,
        })
    }

    /// Checks that a frame belongs to the station's VLAN. Without a VLAN, the frame may carry a tag
    /// only for its priority (IEEE 802.1Q, 6.9).
    fn check_vlan(&self, link: &FrameLink) -> Result<(), RxDrop> {
        let own = self.vlan.filter(|own| own.vid() != 0);
        let right = match (link.vlans, own) {
            ([None, _], None) => true,
            ([Some(found), None], None) => found.vid() == 0,
            ([Some(found), None], Some(own)) => found.tpid == own.tpid && found.vid() == own.vid(),
            _ => false,
        };
        if right {
            Ok(())
        } else {
            Err(RxDrop::OtherVlan)
        }
    }

    fn check_addresses(&self, link: &FrameLink, src: IpAddr, dst: IpAddr) -> Result<(), RxDrop> {
        let is_broadcast = src == IpAddr::V4(Ipv4Addr::BROADCAST);
        if src.is_multicast() || src.is_unspecified() || src.is_loopback() || is_broadcast {
            return Err(RxDrop::BadSource);
        }
        let (known, mac) = if dst.is_multicast() {
            (self.groups.contains(&dst), group_mac(dst))
        } else {
            (self.addresses.contains(&dst), self.mac)
        };
        if !known {
            return Err(RxDrop::OtherAddress);
        }
        if link.dst != mac {
            return Err(RxDrop::OtherMac);
        }
        Ok(())
    }
}

/// The address that a GID encodes.
fn address_of(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

/// The drop reason for a parse error.
// rule: CA17-24-silent-drop
fn reason_of(error: &ParseError) -> RxDrop {
    match (error.layer, error.field, error.reason) {
        (Layer::Ethernet, _, Reason::Unsupported { .. }) => RxDrop::EtherType,
        (Layer::Ipv4, _, Reason::Fragment { .. }) => RxDrop::Fragment,
        (Layer::Ipv4, "protocol", _) | (Layer::Ipv6, "next header", _) => RxDrop::NotUdp,
        (Layer::Ipv4, _, _) => RxDrop::Ipv4Header,
        (Layer::Ipv6, _, _) => RxDrop::Ipv6Header,
        (Layer::Udp, _, Reason::Unsupported { .. }) => RxDrop::UdpPort,
        (Layer::Udp, _, _) => RxDrop::UdpLength,
        (Layer::Grh, _, _) => RxDrop::Grh,
        _ => RxDrop::Truncated,
    }
}

#[cfg(test)]
mod tests;

//! Whole frames: Ethernet, IP and UDP around a transport packet.

use smoltcp::wire::{EthernetFrame, EthernetProtocol};

use crate::icrc::{self, IcrcMismatch, IpHeader};
use crate::{Grh, ICRC_LEN, Layer, Packet, ParseError, UDP_PORT, UdpHeader};

mod ip;
mod repr;

pub use repr::FrameRepr;

/// The EtherType of RoCE v1 (IBTA 1.7, Annex A16).
pub const ETHERTYPE_ROCE_V1: u16 = 0x8915;

/// The EtherTypes of VLAN tags: 802.1Q and 802.1ad.
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];

/// The maximum number of VLAN tags in a frame.
const MAX_VLANS: usize = 2;

/// A frame whose headers are parsed. [`Frame::packet`] parses the transport packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Link addresses and VLAN tags, of frames that have them.
    pub link: Option<Link>,
    /// The IP header, or RoCE v1's GRH.
    pub network: NetworkHeader<'a>,
    /// The UDP header; RoCE v1 has none.
    pub udp: Option<UdpHeader>,
    /// The bytes from the BTH to the ICRC. Their length comes from the innermost length field, so
    /// they exclude the padding of short Ethernet frames.
    pub transport: &'a [u8],
    /// The headers that the ICRC covers, as they are on the wire.
    covered: &'a [u8],
}

/// An Ethernet header and the tags after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// VLAN tags, the outer one first.
    pub vlans: [Option<VlanTag>; MAX_VLANS],
}

/// A VLAN tag (IEEE 802.1Q, 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// The EtherType that announces the tag: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// The tag: priority, drop eligibility, VLAN.
    pub tci: u16,
}

impl VlanTag {
    /// Bytes of the tag and of the EtherType that announces it.
    pub const LEN: usize = 4;

    /// The VLAN, 0 to 4095.
    pub const fn vid(self) -> u16 {
        self.tci & 0xfff
    }

    /// The priority, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Whether the frame may be dropped before others.
    pub const fn drop_eligible(self) -> bool {
        self.tci & 0x1000 != 0
    }
}

/// The header that carries the addresses of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetworkHeader<'a> {
    /// IPv4.
    V4 {
        /// Source address.
        src: [u8; 4],
        /// Destination address.
        dst: [u8; 4],
        /// Type of service: DSCP in the upper six bits, ECN in the lower two.
        tos: u8,
        /// Time to live.
        ttl: u8,
        /// Identification.
        id: u16,
        /// Flags in the upper three bits and fragment offset in the others.
        flags_fragment: u16,
        /// Options: 0 to 40 bytes, a multiple of 4.
        options: &'a [u8],
    },
    /// IPv6.
    V6 {
        /// Source address.
        src: [u8; 16],
        /// Destination address.
        dst: [u8; 16],
        /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
        traffic_class: u8,
        /// Flow label, 20 bits.
        flow_label: u32,
        /// Hop limit.
        hop_limit: u8,
    },
    /// RoCE v1's global route header.
    Grh(Grh),
}

impl NetworkHeader<'_> {
    /// The header fields that the ICRC covers. `None` if [`IpHeader`] can't express them: for IPv4
    /// with options, and for a GRH whose next header is not a BTH.
    pub fn ip_header(&self) -> Option<IpHeader> {
        match *self {
            NetworkHeader::V4 {
                src,
                dst,
                id,
                flags_fragment,
                options: [],
                ..
            } => Some(IpHeader::V4 {
                src,
                dst,
                id,
                flags_fragment,
            }),
            NetworkHeader::V6 { src, dst, .. } => Some(IpHeader::V6 { src, dst }),
            NetworkHeader::Grh(Grh {
                sgid,
                dgid,
                next_header: Grh::NEXT_HEADER_BTH,
                ..
            }) => Some(IpHeader::Grh { sgid, dgid }),
            NetworkHeader::V4 { .. } | NetworkHeader::Grh(_) => None,
        }
    }
}

/// The result of checking a frame's ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// The ICRC is correct.
    Valid,
    /// The stored ICRC differs from the one computed over the frame.
    Invalid(IcrcMismatch),
    /// The frame is too short for an ICRC.
    Missing,
}

impl<'a> Frame<'a> {
    /// Parses an Ethernet frame, without its frame check sequence. It may have up to two VLAN tags.
    ///
    /// # Errors
    /// The first field, from front to back, that is malformed or that shows that the frame carries
    /// no RoCE packet.
    pub fn parse_ethernet(frame: &'a [u8]) -> Result<Frame<'a>, ParseError> {
        Frame::parse_ethernet_on(frame, UDP_PORT)
    }

    /// As [`Frame::parse_ethernet`], but expects RoCEv2 packets at `udp_port` instead of
    /// [`UDP_PORT`].
    ///
    /// # Errors
    /// As [`Frame::parse_ethernet`].
    pub fn parse_ethernet_on(frame: &'a [u8], udp_port: u16) -> Result<Frame<'a>, ParseError> {
        let Ok(ethernet) = EthernetFrame::new_checked(frame) else {
            return Err(ParseError::truncated(
                Layer::Ethernet,
                frame.len(),
                EthernetFrame::<&[u8]>::header_len(),
            ));
        };
        let mut link = Link {
            dst: ethernet.dst_addr().0,
            src: ethernet.src_addr().0,
            vlans: [None; MAX_VLANS],
        };
        let mut ethertype = u16::from(ethernet.ethertype());
        let mut rest = ethernet.payload();
        // rule: A17.2.3-vlan
        for vlan in &mut link.vlans {
            if !ETHERTYPES_VLAN.contains(&ethertype) {
                break;
            }
            let Some((&[tci0, tci1, type0, type1], inner)) = rest.split_first_chunk() else {
                return Err(ParseError::truncated(Layer::Vlan, rest.len(), VlanTag::LEN));
            };
            *vlan = Some(VlanTag {
                tpid: ethertype,
                tci: u16::from_be_bytes([tci0, tci1]),
            });
            ethertype = u16::from_be_bytes([type0, type1]);
            rest = inner;
        }
        let mut parsed = Frame::parse_l3_on(ethertype, rest, udp_port)?;
        parsed.link = Some(link);
        Ok(parsed)
    }

    /// Parses the bytes after a link header. `ethertype` comes from that header, which need not be
    /// an Ethernet header: a Linux cooked capture has one of its own.
    ///
    /// # Errors
    /// As [`Frame::parse_ethernet`].
    pub fn parse_l3(ethertype: u16, packet: &'a [u8]) -> Result<Frame<'a>, ParseError> {
        Frame::parse_l3_on(ethertype, packet, UDP_PORT)
    }

    /// As [`Frame::parse_l3`], but expects RoCEv2 packets at `udp_port` instead of [`UDP_PORT`].
    ///
    /// # Errors
    /// As [`Frame::parse_ethernet`].
    pub fn parse_l3_on(
        ethertype: u16,
        packet: &'a [u8],
        udp_port: u16,
    ) -> Result<Frame<'a>, ParseError> {
        // rule: CA17-1-families
        match EthernetProtocol::from(ethertype) {
            EthernetProtocol::Ipv4 => ip::parse_v4(packet, udp_port),
            EthernetProtocol::Ipv6 => ip::parse_v6(packet, udp_port),
            // rule: A16-ethertype
            EthernetProtocol::Unknown(ETHERTYPE_ROCE_V1) => ip::parse_grh(packet),
            _ => Err(ParseError::unsupported(
                Layer::Ethernet,
                "ethertype",
                ethertype.into(),
                "0x800 (IPv4), 0x86dd (IPv6) or 0x8915 (RoCE v1)",
            )),
        }
    }

    /// Parses an IP packet of either version, without a link header.
    ///
    /// # Errors
    /// As [`Frame::parse_ethernet`].
    pub fn parse_ip(packet: &'a [u8]) -> Result<Frame<'a>, ParseError> {
        match packet.first() {
            None => Err(ParseError::truncated(Layer::Ipv4, 0, 20)),
            Some(byte) if byte >> 4 == 6 => ip::parse_v6(packet, UDP_PORT),
            Some(_) => ip::parse_v4(packet, UDP_PORT),
        }
    }

    /// Parses the transport packet.
    ///
    /// # Errors
    /// As [`Packet::parse`].
    pub fn packet(&self) -> Result<Packet<'a>, ParseError> {
        Packet::parse(self.transport)
    }

    /// Checks the ICRC against the headers as they are on the wire, including options and lengths.
    pub fn icrc_verdict(&self) -> IcrcVerdict {
        let Some((covered, stored)) = self.transport.split_last_chunk::<ICRC_LEN>() else {
            return IcrcVerdict::Missing;
        };
        let computed = match self.covered.try_into() {
            Ok(grh) if self.udp.is_none() => icrc::compute_grh(grh, covered),
            _ => icrc::compute_raw(self.covered, covered),
        };
        let stored = u32::from_le_bytes(*stored);
        if stored == computed {
            IcrcVerdict::Valid
        } else {
            IcrcVerdict::Invalid(IcrcMismatch { stored, computed })
        }
    }

    /// The representation that emits this frame again.
    pub fn repr(&self) -> FrameRepr<'a> {
        FrameRepr {
            link: self.link,
            network: self.network,
            udp: self.udp,
        }
    }
}

#[cfg(test)]
mod tests;

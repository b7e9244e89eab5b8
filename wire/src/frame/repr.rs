//! Representations of frames to send.

use smoltcp::wire::{
    EthernetAddress, EthernetFrame, IpAddress, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket,
    checksum,
};

use super::{ETHERTYPE_ROCE_V1, Link, NetworkHeader, VlanTag};
use crate::{Grh, UdpHeader};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERNET_LEN: usize = 14;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const UDP_LEN: usize = 8;

/// The headers in front of a transport packet to be sent.
///
/// Lengths are computed from the transport packet, and so is the IPv4 header checksum. The UDP
/// checksum is written from `udp`. RoCEv2 sends 0; [`FrameRepr::udp_checksum`] computes the real
/// checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameRepr<'a> {
    /// Link addresses and VLAN tags; `None` for a bare IP packet.
    pub link: Option<Link>,
    /// The IP header, or RoCE v1's GRH, whose payload length is ignored.
    pub network: NetworkHeader<'a>,
    /// The UDP header. With `None`, an IP header gets ports and checksum 0. With a GRH, it is not
    /// written.
    pub udp: Option<UdpHeader>,
}

impl FrameRepr<'_> {
    /// Bytes in front of the transport packet.
    pub fn header_len(&self) -> usize {
        self.link_len() + self.network_len() + self.udp_len()
    }

    /// The length of the whole frame around `transport_len` bytes from the BTH to the ICRC.
    pub fn buffer_len(&self, transport_len: usize) -> usize {
        self.header_len() + transport_len
    }

    /// Writes the headers of a transport packet of `transport_len` bytes. Returns the offset of the
    /// transport packet in `buf`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`FrameRepr::header_len`], if IPv4 options are longer than 40 bytes
    /// or their length is not a multiple of 4, or if the lengths do not fit in the headers' 16
    /// bits.
    // rule: CA17-2-format
    pub fn emit_headers(&self, buf: &mut [u8], transport_len: usize) -> usize {
        let buf = &mut buf[..self.header_len()];
        if let Some(link) = &self.link {
            emit_link(link, self.ethertype(), buf);
        }
        let (network, udp) = buf[self.link_len()..].split_at_mut(self.network_len());
        let udp_len = self.udp_len() + transport_len;
        self.emit_network(network, udp_len);
        if !udp.is_empty() {
            let header = self.udp.unwrap_or(UdpHeader {
                src_port: 0,
                dst_port: 0,
                checksum: 0,
            });
            let mut udp = UdpPacket::new_unchecked(udp);
            udp.set_src_port(header.src_port);
            udp.set_dst_port(header.dst_port);
            udp.set_len(fit(udp_len));
            udp.set_checksum(header.checksum);
        }
        self.header_len()
    }

    /// Writes the whole frame around `transport`. Returns its length.
    ///
    /// # Panics
    /// As [`FrameRepr::emit_headers`], or if `buf` is shorter than
    /// [`FrameRepr::buffer_len`].
    pub fn emit(&self, buf: &mut [u8], transport: &[u8]) -> usize {
        let at = self.emit_headers(buf, transport.len());
        buf[at..][..transport.len()].copy_from_slice(transport);
        at + transport.len()
    }

    /// The UDP checksum of the frame around `transport` (RFC 768); `None` for a GRH or a transport
    /// packet that is too long for UDP.
    pub fn udp_checksum(&self, transport: &[u8]) -> Option<u16> {
        let (src, dst) = match self.network {
            NetworkHeader::V4 { src, dst, .. } => {
                (IpAddress::Ipv4(src.into()), IpAddress::Ipv4(dst.into()))
            }
            NetworkHeader::V6 { src, dst, .. } => {
                (IpAddress::Ipv6(src.into()), IpAddress::Ipv6(dst.into()))
            }
            NetworkHeader::Grh(_) => return None,
        };
        let len = u16::try_from(UDP_LEN + transport.len()).ok()?;
        let (src_port, dst_port) = self.udp.map_or((0, 0), |udp| (udp.src_port, udp.dst_port));
        // The sum of 16-bit words does not depend on their order, so fields may be summed as they
        // are.
        let sum = checksum::combine(&[
            checksum::pseudo_header(&src, &dst, IpProtocol::Udp, len.into()),
            src_port,
            dst_port,
            len,
            checksum::data(transport),
        ]);
        // Zero on the wire would mean no checksum.
        Some(if sum == 0xffff { sum } else { !sum })
    }

    fn link_len(&self) -> usize {
        match &self.link {
            None => 0,
            Some(link) => ETHERNET_LEN + VlanTag::LEN * link.vlans.iter().flatten().count(),
        }
    }

    fn network_len(&self) -> usize {
        match &self.network {
            NetworkHeader::V4 { options, .. } => V4_LEN + options.len(),
            NetworkHeader::V6 { .. } => V6_LEN,
            NetworkHeader::Grh(_) => Grh::LEN,
        }
    }

    fn udp_len(&self) -> usize {
        match &self.network {
            NetworkHeader::V4 { .. } | NetworkHeader::V6 { .. } => UDP_LEN,
            NetworkHeader::Grh(_) => 0,
        }
    }

    fn ethertype(&self) -> u16 {
        match &self.network {
            NetworkHeader::V4 { .. } => ETHERTYPE_IPV4,
            NetworkHeader::V6 { .. } => ETHERTYPE_IPV6,
            NetworkHeader::Grh(_) => ETHERTYPE_ROCE_V1,
        }
    }

    /// Writes the network header in front of `payload_len` bytes.
    fn emit_network(&self, buf: &mut [u8], payload_len: usize) {
        match self.network {
            NetworkHeader::V4 {
                src,
                dst,
                tos,
                ttl,
                id,
                flags_fragment,
                options,
            } => {
                let header_len = buf.len();
                assert!(
                    options.len() <= 40 && options.len().is_multiple_of(4),
                    "IPv4 options of {} bytes: expected a multiple of 4 up to 40",
                    options.len()
                );
                buf[V4_LEN..].copy_from_slice(options);
                buf[6..8].copy_from_slice(&flags_fragment.to_be_bytes());
                let mut ip = Ipv4Packet::new_unchecked(buf);
                ip.set_version(4);
                ip.set_header_len(header_len as u8);
                ip.set_dscp(tos >> 2);
                ip.set_ecn(tos & 0x3);
                ip.set_total_len(fit(header_len + payload_len));
                ip.set_ident(id);
                ip.set_hop_limit(ttl);
                ip.set_next_header(IpProtocol::Udp);
                ip.set_src_addr(src.into());
                ip.set_dst_addr(dst.into());
                ip.fill_checksum();
            }
            NetworkHeader::V6 {
                src,
                dst,
                traffic_class,
                flow_label,
                hop_limit,
            } => {
                let mut ip = Ipv6Packet::new_unchecked(buf);
                ip.set_version(6);
                ip.set_traffic_class(traffic_class);
                ip.set_flow_label(flow_label & 0x000f_ffff);
                ip.set_payload_len(fit(payload_len));
                ip.set_next_header(IpProtocol::Udp);
                ip.set_hop_limit(hop_limit);
                ip.set_src_addr(src.into());
                ip.set_dst_addr(dst.into());
            }
            NetworkHeader::Grh(grh) => Grh {
                payload_len: fit(payload_len),
                ..grh
            }
            .emit(buf),
        }
    }
}

/// Writes an Ethernet header with its VLAN tags, and `ethertype` after them.
fn emit_link(link: &Link, ethertype: u16, buf: &mut [u8]) {
    let mut ethernet = EthernetFrame::new_unchecked(&mut *buf);
    ethernet.set_dst_addr(EthernetAddress(link.dst));
    ethernet.set_src_addr(EthernetAddress(link.src));
    let mut at = ETHERNET_LEN - 2;
    for tag in link.vlans.iter().flatten() {
        buf[at..at + 2].copy_from_slice(&tag.tpid.to_be_bytes());
        buf[at + 2..at + 4].copy_from_slice(&tag.tci.to_be_bytes());
        at += VlanTag::LEN;
    }
    buf[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
}

/// Converts a length to the 16 bits of a header's length field.
fn fit(len: usize) -> u16 {
    match u16::try_from(len) {
        Ok(len) => len,
        Err(_) => panic!("a packet of {len} bytes: expected at most 65535"),
    }
}

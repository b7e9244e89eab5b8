//! Received frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_stack::port::{IpCovered, RxMeta};
use roce_wire::{Frame, Layer, Link as FrameLink, NetworkHeader, ParseError, Reason, VlanTag};

use super::facts::{Mac, group_mac};
use super::reasons::RxDrop;
use super::template::checksum_holds;

const V4_LEN: usize = 20;
const ETHERNET_LEN: usize = 14;

/// Who a frame has to be to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station<'a> {
    /// The interface's Ethernet address.
    pub(super) mac: Mac,
    /// The VLAN that it is in, by a tag of its frames.
    pub(super) vlan: Option<VlanTag>,
    /// The interface's addresses.
    pub(super) addresses: &'a [IpAddr],
    /// The multicast groups that were joined.
    pub(super) groups: &'a [IpAddr],
    /// Whether frames of RoCE v1 are taken.
    pub(super) roce_v1: bool,
}

/// A RoCE packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// What the stack wants to know of its headers.
    pub meta: RxMeta,
    /// The bytes from the BTH to the ICRC. What a link pads short frames with is not
    /// among them.
    pub transport: &'a [u8],
}

impl Station<'_> {
    /// Takes a whole frame apart, from the Ethernet header to the end, without its
    /// frame check sequence.
    pub(super) fn parse<'f>(&self, bytes: &'f [u8]) -> Result<Received<'f>, RxDrop> {
        let frame = Frame::parse_ethernet(bytes).map_err(|error| reason_of(&error))?;
        let Some(link) = frame.link else {
            return Err(RxDrop::Truncated);
        };
        self.check_vlan(&link)?;
        let (src, dst, traffic_class, ip) = match frame.network {
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

    /// A frame must be of our VLAN; without one it may carry a tag for its priority
    /// alone (IEEE 802.1Q, 6.9).
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

/// The address that a GID is.
fn address_of(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

/// The reason to drop what does not parse.
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

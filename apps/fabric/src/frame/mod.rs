//! Ethernet frames, as far as switches look into them.
//!
//! A host with number `n`, from 1, has the MAC address 02:00:00:00:HH:LL, of its number, and the
//! addresses [`ipv4`] and [`ipv6`]. The simulated switch finds hosts by the IPv4 address, so that
//! is what stands for a MAC address there.

use roce_sim::fabric::Frame;
use roce_stack::{IpCovered, RxMeta};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bytes of an Ethernet header, without tags.
pub(crate) const ETHERNET: usize = 14;

/// The headers of a RoCEv2 packet over IPv4, which links count as their own.
const BELOW_TRANSPORT: usize = ETHERNET + 20 + 8;

/// Stands for the group of all hosts.
pub(crate) const EVERYONE: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));

/// The MAC address of a host with this number, from 1.
pub(crate) fn mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [2, 0, 0, 0, high, low]
}

/// The IPv4 address of a host with this number, from 1: 10.0.0.1, in a network of 16 bits.
pub fn ipv4(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The IPv6 address of a host with this number, from 1: fd00::1, in a network of 64 bits.
pub fn ipv6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)
}

/// The protocols that this module looks into.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A frame of the host with this number as the fabric takes it; `None` for one that no switch
/// forwards: too short, or not to a host of the fabric.
pub(crate) fn parse(from: u16, bytes: &[u8]) -> Option<Frame<'_>> {
    let to = destination(bytes.first_chunk()?)?;
    let ip = ip_header(bytes);
    let meta = RxMeta {
        src: ipv4(from).into(),
        dst: to,
        src_port: ip.map_or(0, |ip| ip.ports(bytes)),
        traffic_class: ip.map_or(0, |ip| ip.traffic_class),
        ip: IpCovered::V4Hidden,
    };
    Some(Frame {
        bytes,
        headers: BELOW_TRANSPORT,
        meta,
    })
}

fn destination(mac: &[u8; 6]) -> Option<IpAddr> {
    match *mac {
        [first, ..] if first & 1 == 1 => Some(EVERYONE),
        [2, 0, 0, 0, high, low] => Some(ipv4(u16::from_be_bytes([high, low])).into()),
        _ => None,
    }
}

/// The fields of an IP header that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpHeader {
    traffic_class: u8,
    protocol: u8,
    /// Where the header of the protocol begins in the frame; `None` in a later fragment.
    payload: Option<usize>,
}

impl IpHeader {
    /// The ports, as part of the flow's hash: the source port alone for packets of RoCE, so that a flow is the same as in a
    /// simulation, and both ports for others.
    fn ports(self, frame: &[u8]) -> u16 {
        let at = match (self.protocol, self.payload) {
            (TCP | UDP, Some(at)) => at,
            _ => return 0,
        };
        let Some(&[a, b, c, d]) = frame.get(at..).and_then(<[u8]>::first_chunk) else {
            return 0;
        };
        let (source, target) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match (self.protocol, target) {
            (UDP, roce_wire::UDP_PORT) => source,
            _ => source ^ target,
        }
    }
}

fn ip_header(frame: &[u8]) -> Option<IpHeader> {
    let ethertype = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    let header = frame.get(ETHERNET..)?;
    match ethertype {
        IPV4 => {
            let header: &[u8; 20] = header.first_chunk()?;
            let words = header[0] & 15;
            let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
            (header[0] >> 4 == 4 && words >= 5).then_some(IpHeader {
                traffic_class: header[1],
                protocol: header[9],
                payload: (offset == 0).then_some(ETHERNET + 4 * usize::from(words)),
            })
        }
        IPV6 => {
            let header: &[u8; 40] = header.first_chunk()?;
            (header[0] >> 4 == 6).then_some(IpHeader {
                traffic_class: header[0] << 4 | header[1] >> 4,
                protocol: header[6],
                payload: Some(ETHERNET + 40),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

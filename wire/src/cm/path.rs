//! The path in a REQ.

use core::net::{IpAddr, Ipv6Addr};

use super::put;
use crate::header::{be16, be24};

/// The address as a GID. An IPv4 address becomes an IPv4-mapped IPv6 address (RoCEv2 Annex A17.4.1.1).
pub const fn gid_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The address that a GID represents.
pub const fn ip_of(gid: Ipv6Addr) -> IpAddr {
    match gid.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(gid),
    }
}

/// A path as a REQ describes it: local is the sender, remote the recipient (IBTA 1.7, 12.6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRecord {
    /// The sender's LID; RoCE has none, and Linux sends 0xffff.
    pub local_lid: u16,
    /// The recipient's LID.
    pub remote_lid: u16,
    /// The sender's GID.
    pub local_gid: Ipv6Addr,
    /// The recipient's GID.
    pub remote_gid: Ipv6Addr,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// The encoded rate, 6 bits.
    pub packet_rate: u8,
    /// The traffic class of the connection's packets.
    pub traffic_class: u8,
    /// The hop limit of the connection's packets.
    pub hop_limit: u8,
    /// The service level, 4 bits.
    pub service_level: u8,
    /// Whether both ports are on one subnet, so that LIDs are enough.
    pub subnet_local: bool,
    /// The local ACK timeout t, 5 bits: 4.096 µs × 2^t.
    pub ack_timeout: u8,
}

impl PathRecord {
    pub(super) const LEN: usize = 44;
    /// The LID that means "unknown", which Linux puts into REQs on RoCE.
    pub const PERMISSIVE_LID: u16 = 0xffff;

    // rule: 12.6.5-path
    pub(super) fn read(b: &[u8; Self::LEN]) -> PathRecord {
        PathRecord {
            local_lid: be16(b, 0),
            remote_lid: be16(b, 2),
            local_gid: gid(b, 4),
            remote_gid: gid(b, 20),
            flow_label: be24(b, 36) >> 4,
            packet_rate: b[39] & 0x3f,
            traffic_class: b[40],
            hop_limit: b[41],
            service_level: b[42] >> 4,
            subnet_local: b[42] & 0x08 != 0,
            ack_timeout: b[43] >> 3,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        put(&mut b, 0, self.local_lid.to_be_bytes());
        put(&mut b, 2, self.remote_lid.to_be_bytes());
        put(&mut b, 4, self.local_gid.octets());
        put(&mut b, 20, self.remote_gid.octets());
        super::put24(&mut b, 36, self.flow_label << 4);
        b[39] = self.packet_rate & 0x3f;
        b[40] = self.traffic_class;
        b[41] = self.hop_limit;
        b[42] = self.service_level << 4 | u8::from(self.subnet_local) << 3;
        b[43] = self.ack_timeout << 3;
        b
    }
}

pub(super) fn gid<const N: usize>(b: &[u8; N], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&b[at..at + 16]);
    octets.into()
}

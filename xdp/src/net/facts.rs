//! Facts about the interface: its link and its addresses.

use std::net::{IpAddr, Ipv6Addr};

use roce_stack::PriorityMap;
use roce_wire::VlanTag;

use super::reasons::Refusal;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The properties of an interface's link that affect frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The interface's index, which also is the scope of link-local addresses.
    pub index: u32,
    /// The interface's name.
    pub name: String,
    /// Whether it is Ethernet. Other links are not supported.
    pub ethernet: bool,
    /// Its address.
    pub mac: Mac,
    /// The largest IP packet, header included, in bytes.
    pub mtu: usize,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// The VLAN, if it is a VLAN device.
    pub vlan: Option<VlanDevice>,
}

/// A VLAN device on top of another interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanDevice {
    /// The index of the interface that carries the tagged frames.
    pub lower: u32,
    /// The tag of its frames, with priority 0.
    pub tag: VlanTag,
}

/// An address of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of the address's prefix, in bits.
    pub prefix_len: u8,
    /// Whether packets may be sent from it. An IPv6 address is usable once its duplicate address
    /// detection has succeeded (RFC 4862, 5.4).
    pub usable: bool,
}

impl OwnAddress {
    /// Whether the prefix says that `other` is on the link.
    pub(super) fn is_on_link(&self, other: IpAddr) -> bool {
        let left = |bits: u32| bits.saturating_sub(self.prefix_len.into());
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(left(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(left(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// An address of another interface of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OtherAddress {
    /// The interface's index.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
}

/// Whether frames carry an 802.1Q tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tagging {
    /// No tag is written. Received frames are accepted only without a tag, or with one that names
    /// no VLAN. Use this for a VLAN device, too: the kernel tags the frames that pass through it.
    #[default]
    None,
    /// Frames carry the tag of the VLAN device. This is for frames that bypass the device and leave
    /// through the interface under it.
    Device(Priority),
    /// Frames carry this tag, with the priority from [`Priority`] instead of its own. A tag of VLAN
    /// 0 names no VLAN and carries only the priority (IEEE 802.1Q, 6.9).
    Fixed(VlanTag, Priority),
}

/// The source of a tag's three priority bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Always this value, 0 to 7.
    Fixed(u8),
    /// The upper three bits of the DSCP, which is the default mapping of switches.
    FromDscp,
    /// The map's value for the DSCP.
    Map(PriorityMap),
}

impl Priority {
    /// The priority of a packet with this traffic class, 0 to 7.
    pub fn of(self, traffic_class: u8) -> u8 {
        match self {
            Priority::Fixed(priority) => priority & 7,
            Priority::FromDscp => traffic_class >> 5,
            Priority::Map(map) => map.of(traffic_class),
        }
    }
}

impl Tagging {
    /// Whether frames of `link` can be tagged this way.
    pub(super) fn check(self, link: &Link) -> Result<(), Refusal> {
        if self != Tagging::None && self.tag(link).is_none() {
            return Err(Refusal::NoVlan);
        }
        Ok(())
    }

    /// The tag for frames of `link`, with priority 0, and the source of the priority.
    pub(super) fn tag(self, link: &Link) -> Option<(VlanTag, Priority)> {
        let (tag, priority) = match self {
            Tagging::None => return None,
            Tagging::Device(priority) => (link.vlan?.tag, priority),
            Tagging::Fixed(tag, priority) => (tag, priority),
        };
        let tci = tag.tci & 0x1fff;
        Some((VlanTag { tci, ..tag }, priority))
    }
}

/// The Ethernet address that a link-local address was derived from (RFC 4291, appendix A), if it
/// was derived from one.
pub(super) fn mac_in(address: Ipv6Addr) -> Option<Mac> {
    let [.., a, b, c, 0xff, 0xfe, d, e, f] = address.octets() else {
        return None;
    };
    address
        .is_unicast_link_local()
        .then_some([a ^ 2, b, c, d, e, f])
}

/// The Ethernet address of a multicast group (RFC 1112, 6.4; RFC 2464, 7).
pub(super) fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

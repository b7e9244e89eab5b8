//! Decodes the kernel's messages.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
    VlanProtocol,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState as Nud,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use roce_wire::VlanTag;

use super::super::event::{Event, NeighbourState, Route};
use super::super::facts::{Link, OtherAddress, OwnAddress, VlanDevice};

/// Converts a message to an event for the interface with this index, if it affects that interface.
pub(super) fn event(message: &RouteNetlinkMessage, index: u32) -> Option<Event> {
    match message {
        RouteNetlinkMessage::NewLink(message) if message.header.index != index => {
            other_link(message)
        }
        RouteNetlinkMessage::NewLink(message) => link(message, index).map(Event::Link),
        RouteNetlinkMessage::DelLink(message) => is_link(message, index).then_some(Event::LinkGone),
        RouteNetlinkMessage::NewAddress(message) if message.header.index != index => {
            other_address(message, index).map(Event::OtherAddress)
        }
        RouteNetlinkMessage::DelAddress(message) if message.header.index != index => {
            other_address(message, index).map(Event::OtherAddressGone)
        }
        RouteNetlinkMessage::NewAddress(message) => address(message, index).map(Event::Address),
        RouteNetlinkMessage::DelAddress(message) => {
            address(message, index).map(|own| Event::AddressGone(own.address))
        }
        RouteNetlinkMessage::NewNeighbour(message) => neighbour(message, index),
        RouteNetlinkMessage::DelNeighbour(message) => match neighbour(message, index)? {
            Event::Neighbour { address, .. } => Some(Event::NeighbourGone(address)),
            _ => None,
        },
        RouteNetlinkMessage::NewRoute(message) | RouteNetlinkMessage::DelRoute(message) => {
            affects(message, index).then_some(Event::RoutesChanged)
        }
        RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_) => {
            Some(Event::RoutesChanged)
        }
        _ => None,
    }
}

/// The event for a message that could not be decoded, if its type may affect routes.
pub(super) fn event_of_unknown(kind: u16) -> Option<Event> {
    /// The netlink crate does not know next hop objects.
    const RTM_NEWNEXTHOP: u16 = 104;
    const RTM_DELNEXTHOP: u16 = 105;
    const ROUTES: [u16; 6] = [
        libc::RTM_NEWROUTE,
        libc::RTM_DELROUTE,
        libc::RTM_NEWRULE,
        libc::RTM_DELRULE,
        RTM_NEWNEXTHOP,
        RTM_DELNEXTHOP,
    ];
    ROUTES.contains(&kind).then_some(Event::RoutesChanged)
}

/// Whether a message is about the interface itself. Messages of families other than "unspecified"
/// report its membership in a bridge and the like.
fn is_link(message: &LinkMessage, index: u32) -> bool {
    message.header.index == index && message.header.interface_family == AddressFamily::Unspec
}

/// The link in a message; `None` if it is another link or the message is incomplete.
fn link(message: &LinkMessage, index: u32) -> Option<Link> {
    if !is_link(message, index) {
        return None;
    }
    let (mut name, mut mac, mut mtu, mut lower, mut tag) = (None, None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Address(bytes) => mac = bytes.as_slice().try_into().ok(),
            LinkAttribute::Mtu(bytes) => mtu = usize::try_from(*bytes).ok(),
            LinkAttribute::Link(index) => lower = Some(*index),
            LinkAttribute::LinkInfo(infos) => tag = infos.iter().find_map(vlan_tag),
            _ => {}
        }
    }
    let ethernet = message.header.link_layer_type == LinkLayerType::Ether;
    let up = LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running;
    Some(Link {
        index,
        name: name?,
        ethernet,
        // A link other than Ethernet has another kind of address, or none.
        mac: if ethernet { mac? } else { [0; 6] },
        mtu: mtu?,
        up: message.header.flags.contains(up),
        vlan: lower.zip(tag).map(|(lower, tag)| VlanDevice { lower, tag }),
    })
}

/// The Ethernet address of another interface, if the message is about its link. There is no event
/// for an interface that is gone, because its addresses were removed before.
pub(super) fn other_link(message: &LinkMessage) -> Option<Event> {
    let index = message.header.index;
    if !is_link(message, index) {
        return None;
    }
    let ethernet = message.header.link_layer_type == LinkLayerType::Ether;
    let mac = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok(),
        _ => None,
    };
    let mac = message.attributes.iter().find_map(mac);
    Some(Event::OtherLink {
        index,
        mac: mac.filter(|_| ethernet),
    })
}

/// The tag of a VLAN device.
fn vlan_tag(info: &LinkInfo) -> Option<VlanTag> {
    let LinkInfo::Data(InfoData::Vlan(infos)) = info else {
        return None;
    };
    let mut tag = VlanTag {
        tpid: 0x8100,
        tci: 0,
    };
    for info in infos {
        match info {
            InfoVlan::Id(id) => tag.tci = id & 0xfff,
            InfoVlan::Protocol(VlanProtocol::Ieee8021Ad) => tag.tpid = 0x88a8,
            _ => {}
        }
    }
    Some(tag)
}

/// An address of the interface.
pub(super) fn address(message: &AddressMessage, index: u32) -> Option<OwnAddress> {
    if message.header.index != index {
        return None;
    }
    let (mut local, mut prefix, mut flags) = (None, None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => prefix = Some(*address),
            AddressAttribute::Flags(all) => flags = Some(*all),
            _ => {}
        }
    }
    let header: AddressHeaderFlags = message.header.flags;
    let flags = flags.unwrap_or(AddressFlags::from_bits_retain(header.bits().into()));
    let is_tentative =
        flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic);
    Some(OwnAddress {
        // On a point-to-point link, the attribute `Address` has the peer's address.
        address: local.or(prefix)?,
        prefix_len: message.header.prefix_len,
        usable: !is_tentative && !flags.contains(AddressFlags::Dadfailed),
    })
}

/// An address of another interface.
pub(super) fn other_address(message: &AddressMessage, index: u32) -> Option<OtherAddress> {
    let other = message.header.index;
    let own = address(message, other).filter(|_| other != index)?;
    Some(OtherAddress {
        index: other,
        address: own.address,
    })
}

/// The state of a neighbour on the interface.
pub(super) fn neighbour(message: &NeighbourMessage, index: u32) -> Option<Event> {
    let header = &message.header;
    if header.ifindex != index || header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::V4(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::V6(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some(Event::Neighbour {
        address: address?,
        mac,
        state: match header.state {
            // While it is probed, the address stays in use (RFC 4861, 7.3.3).
            Nud::Reachable | Nud::Delay | Nud::Probe | Nud::Permanent | Nud::Noarp => {
                NeighbourState::Valid
            }
            Nud::Stale => NeighbourState::Stale,
            Nud::Incomplete => NeighbourState::Incomplete,
            Nud::Failed => NeighbourState::Failed,
            _ => NeighbourState::None,
        },
    })
}

/// Whether a changed route may affect the interface: the route leads over the interface, or has no
/// interface.
fn affects(message: &RouteMessage, index: u32) -> bool {
    let oif = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Oif(oif) => Some(*oif),
        _ => None,
    };
    message
        .attributes
        .iter()
        .find_map(oif)
        .is_none_or(|oif| oif == index)
}

/// The answer to a route request over this interface.
pub(super) fn route(message: &RouteMessage, index: u32) -> Route {
    match message.header.kind {
        RouteType::Local | RouteType::Anycast => return Route::Local,
        RouteType::Prohibit => return Route::Prohibited,
        RouteType::Unicast | RouteType::Broadcast | RouteType::Multicast => {}
        _ => return Route::None,
    }
    let (mut oif, mut gateway, mut mtu) = (None, None, None);
    let mut table = u32::from(message.header.table);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => oif = Some(*index),
            RouteAttribute::Table(wide) => table = *wide,
            RouteAttribute::Gateway(RouteAddress::Inet(v4))
            | RouteAttribute::Via(RouteVia::Inet(v4)) => gateway = Some(IpAddr::V4(*v4)),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6))
            | RouteAttribute::Via(RouteVia::Inet6(v6)) => gateway = Some(IpAddr::V6(*v6)),
            RouteAttribute::Metrics(metrics) => mtu = metrics.iter().find_map(route_mtu),
            _ => {}
        }
    }
    match message.header.kind {
        _ if oif != Some(index) => Route::None,
        RouteType::Multicast => Route::Multicast,
        RouteType::Broadcast => Route::Broadcast,
        // The kernel found no route and assumes that the destination is on the link.
        _ if table == u32::from(RouteHeader::RT_TABLE_UNSPEC) => Route::None,
        _ => Route::Unicast { gateway, mtu },
    }
}

fn route_mtu(metric: &RouteMetric) -> Option<usize> {
    match metric {
        RouteMetric::Mtu(mtu) if *mtu > 0 => usize::try_from(*mtu).ok(),
        _ => None,
    }
}

/// The route that an error in answer to a route request means.
pub(super) fn route_error(error: &io::Error) -> Option<Route> {
    match error.raw_os_error()? {
        libc::EACCES | libc::EPERM => Some(Route::Prohibited),
        // EINVAL is the answer of a "blackhole" route.
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::ESRCH | libc::EINVAL => {
            Some(Route::None)
        }
        _ => None,
    }
}

//! The events that the core handles, and its requests.

use std::net::IpAddr;

use roce_stack::RoceVersion;

use super::facts::{Link, Mac, OtherAddress, OwnAddress};

/// The two ends of a path, and the protocol that carries packets between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathKey {
    /// The source: an address of the interface.
    pub src: IpAddr,
    /// The destination, of the same family.
    pub dst: IpAddr,
    /// The version of RoCE. Packets of v1 do not pass routers.
    pub version: RoceVersion,
}

/// The kernel's state of a neighbour's address (RFC 4861, 7.3.2, and Linux's own states).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// A request was sent and is not answered yet.
    Incomplete,
    /// The address is valid, for now or permanently.
    Valid,
    /// The Ethernet address is known but was not confirmed recently. The kernel confirms it at its
    /// next use.
    Stale,
    /// The neighbour did not answer.
    Failed,
    /// No address is known, and no request is outstanding.
    None,
}

/// The way on which the kernel would send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over the interface, through a gateway or, without one, directly to the destination.
    Unicast {
        /// The gateway, possibly of the other family.
        gateway: Option<IpAddr>,
        /// The largest IP packet on this path, if it is smaller than the interface's.
        mtu: Option<usize>,
    },
    /// Over the interface, to a multicast group.
    Multicast,
    /// Over the interface, to the broadcast address.
    Broadcast,
    /// To this host itself: to this or another of its interfaces.
    Local,
    /// No route over the interface: there is none, or it leads over another interface.
    None,
    /// A rule or route prohibits the packet.
    Prohibited,
}

/// An event for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The link, as it is now.
    Link(Link),
    /// The interface is gone.
    LinkGone,
    /// All addresses of the interface, as they are now.
    Addresses(Vec<OwnAddress>),
    /// An address was added or has changed.
    Address(OwnAddress),
    /// An address was removed.
    AddressGone(IpAddr),
    /// All addresses of the host's other interfaces, as they are now.
    Others(Vec<OtherAddress>),
    /// Another interface has this address. The event does not say whether the interface had it
    /// before.
    OtherAddress(OtherAddress),
    /// Another interface no longer has this address.
    OtherAddressGone(OtherAddress),
    /// The current link of another interface: the answer to [`Request::OtherLink`], or a change.
    OtherLink {
        /// The interface's index.
        index: u32,
        /// Its Ethernet address; `None` if it is not Ethernet, or is gone.
        mac: Option<Mac>,
    },
    /// Some route or rule has changed.
    RoutesChanged,
    /// The answer to [`Request::Route`].
    Route(PathKey, Route),
    /// The state of a neighbour.
    Neighbour {
        /// Its IP address.
        address: IpAddr,
        /// Its Ethernet address, if there is one.
        mac: Option<Mac>,
        /// The state of the address.
        state: NeighbourState,
    },
    /// A neighbour was forgotten.
    NeighbourGone(IpAddr),
    /// Events were lost, so all facts have to be requested again.
    Overrun,
}

/// A request of the core to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Request the link: [`Event::Link`] or [`Event::LinkGone`].
    Link,
    /// Request all addresses: [`Event::Addresses`] and [`Event::Others`].
    Addresses,
    /// Request the route of a packet: [`Event::Route`].
    Route(PathKey),
    /// Request the state of this neighbour, and report to the kernel that the neighbour is in use
    /// unless its address is valid: [`Event::Neighbour`] or [`Event::NeighbourGone`].
    Neighbour(IpAddr),
    /// Request the Ethernet address of another interface of this host, with this index:
    /// [`Event::OtherLink`].
    OtherLink(u32),
}

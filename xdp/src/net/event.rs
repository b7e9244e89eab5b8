//! What the core is told, and what it asks for.

use std::net::IpAddr;

use roce_stack::RoceVersion;

use super::facts::{Link, Mac, OtherAddress, OwnAddress};

/// Two ends of a path, and what carries packets between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathKey {
    /// The source: an address of the interface.
    pub src: IpAddr,
    /// The destination, of the same family.
    pub dst: IpAddr,
    /// The version of RoCE: v1 does not pass routers.
    pub version: RoceVersion,
}

/// What the kernel knows of a neighbour's address (RFC 4861, 7.3.2, and Linux's own
/// states beside).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// It has been asked for and there is no answer yet.
    Incomplete,
    /// It is known and good, for now or for ever.
    Valid,
    /// It is known and was good a while ago; whether it still is will be found out
    /// when it is used.
    Stale,
    /// There was no answer.
    Failed,
    /// Nothing is known and nothing is under way.
    None,
}

/// Where the kernel would send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over the interface, by way of a gateway or, without one, to the destination.
    Unicast {
        /// The gateway, possibly of the other family.
        gateway: Option<IpAddr>,
        /// The largest IP packet on this path, if it is smaller than the interface's.
        mtu: Option<usize>,
    },
    /// Over the interface, to a multicast group.
    Multicast,
    /// Over the interface, to everybody.
    Broadcast,
    /// To this machine itself: to this or another of its interfaces.
    Local,
    /// Nowhere, or over another interface.
    None,
    /// It is forbidden.
    Prohibited,
}

/// News for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link, as it is now.
    Link(Link),
    /// The interface is no more.
    LinkGone,
    /// All addresses of the interface, as they are now.
    Addresses(Vec<OwnAddress>),
    /// An address was added or has changed.
    Address(OwnAddress),
    /// An address was removed.
    AddressGone(IpAddr),
    /// All addresses of the host's other interfaces, as they are now.
    Others(Vec<OtherAddress>),
    /// Another interface has this address, perhaps since now.
    OtherAddress(OtherAddress),
    /// Another interface has this address no more.
    OtherAddressGone(OtherAddress),
    /// Another interface's link, as it is now: the answer to [`Request::OtherLink`], and news.
    OtherLink {
        /// The interface's index.
        index: u32,
        /// Its Ethernet address; nothing if it is no Ethernet, or gone.
        mac: Option<Mac>,
    },
    /// Some route or rule has changed.
    RoutesChanged,
    /// The answer to [`Request::Route`].
    Route(PathKey, Route),
    /// A neighbour's address and what is known of it.
    Neighbour {
        /// Its IP address.
        address: IpAddr,
        /// Its Ethernet address, if there is one.
        mac: Option<Mac>,
        /// Whether that is good.
        state: NeighbourState,
    },
    /// A neighbour was forgotten.
    NeighbourGone(IpAddr),
    /// News were lost: everything has to be asked for again.
    Overrun,
}

/// What the core wants to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Ask for the link: [`Event::Link`] or [`Event::LinkGone`].
    Link,
    /// Ask for all addresses: [`Event::Addresses`] and [`Event::Others`].
    Addresses,
    /// Ask where a packet would be sent: [`Event::Route`].
    Route(PathKey),
    /// Ask what is known of this neighbour, and tell the kernel that it is in use unless
    /// its address is known and good: [`Event::Neighbour`] or [`Event::NeighbourGone`].
    Neighbour(IpAddr),
    /// Ask for the Ethernet address of another interface of this host, of this index:
    /// [`Event::OtherLink`].
    OtherLink(u32),
}

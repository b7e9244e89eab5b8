//! The host's other interfaces: their addresses and, where paths lead to them, their Ethernet
//! addresses.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::super::facts::{Mac, OtherAddress};

/// The other interfaces. Link-local addresses are left out, because several interfaces may have the
/// same one on different links, so only neighbour discovery finds the owner. The kernel answers
/// neighbour discovery, unlike ARP, between two interfaces of one host.
#[derive(Debug, Default)]
pub(super) struct Others {
    addresses: BTreeSet<(IpAddr, u32)>,
    /// The links of the interfaces that paths lead to.
    links: HashMap<u32, OtherLink>,
}

/// The state of another interface's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherLink {
    /// The kernel has been asked.
    Pending,
    /// Its Ethernet address, if it has one.
    Known(Option<Mac>),
}

impl Others {
    /// Replaces all addresses. Returns whether that is a change.
    pub(super) fn set_addresses(&mut self, addresses: Vec<OtherAddress>) -> bool {
        let all = addresses.into_iter().filter_map(global).collect();
        let is_new = self.addresses != all;
        self.addresses = all;
        self.links.clear();
        is_new
    }

    /// Adds an address. Returns whether it is new.
    pub(super) fn add(&mut self, other: OtherAddress) -> bool {
        global(other).is_some_and(|new| self.addresses.insert(new))
    }

    /// Removes an address. Returns whether it was known.
    pub(super) fn remove(&mut self, other: OtherAddress) -> bool {
        let was_known = self.addresses.remove(&(other.address, other.index));
        if !self.addresses.iter().any(|&(_, of)| of == other.index) {
            // No path leads to the interface any more.
            self.links.remove(&other.index);
        }
        was_known
    }

    /// The interface that has an address; if several have it, the one with the lowest index.
    pub(super) fn interface_of(&self, address: IpAddr) -> Option<u32> {
        let mut all = self.addresses.range((address, 0)..=(address, u32::MAX));
        all.next().map(|&(_, index)| index)
    }

    /// Returns the state of an interface's link, and tracks it from now on.
    pub(super) fn track(&mut self, index: u32) -> OtherLink {
        *self.links.entry(index).or_insert(OtherLink::Pending)
    }

    /// Applies what the kernel reports about a link. Returns whether paths are affected.
    pub(super) fn update(&mut self, index: u32, mac: Option<Mac>) -> bool {
        let now = OtherLink::Known(mac);
        let known = self.links.get_mut(&index);
        known.is_some_and(|known| std::mem::replace(known, now) != now)
    }

    /// Forgets all links. Each is requested again when it is needed.
    pub(super) fn forget_links(&mut self) {
        self.links.clear();
    }
}

fn global(other: OtherAddress) -> Option<(IpAddr, u32)> {
    let is_link_local = match other.address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (!is_link_local).then_some((other.address, other.index))
}

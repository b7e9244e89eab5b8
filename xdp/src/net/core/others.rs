//! The host's other interfaces: their addresses and, as far as paths lead there, their
//! Ethernet addresses.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::super::facts::{Mac, OtherAddress};

/// What is known of them. Addresses of a link alone are left out: another interface may have
/// the same one on another link, so that only neighbour discovery tells whose it is. It is
/// answered between interfaces of one host, other than ARP.
#[derive(Debug, Default)]
pub(super) struct Others {
    addresses: BTreeSet<(IpAddr, u32)>,
    /// Of the interfaces that paths lead to.
    links: HashMap<u32, OtherLink>,
}

/// What is known of another interface's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherLink {
    /// The kernel is asked.
    Pending,
    /// Its Ethernet address, if it has one.
    Known(Option<Mac>),
}

impl Others {
    /// All addresses, as they are now. Returns whether that is new.
    pub(super) fn set_addresses(&mut self, addresses: Vec<OtherAddress>) -> bool {
        let all = addresses.into_iter().filter_map(global).collect();
        let is_new = self.addresses != all;
        self.addresses = all;
        self.links.clear();
        is_new
    }

    /// Returns whether the address is new.
    pub(super) fn add(&mut self, other: OtherAddress) -> bool {
        global(other).is_some_and(|new| self.addresses.insert(new))
    }

    /// Returns whether it was known.
    pub(super) fn remove(&mut self, other: OtherAddress) -> bool {
        let was_known = self.addresses.remove(&(other.address, other.index));
        if !self.addresses.iter().any(|&(_, of)| of == other.index) {
            // Nothing leads there any more.
            self.links.remove(&other.index);
        }
        was_known
    }

    /// The interface that has an address; the first of several.
    pub(super) fn interface_of(&self, address: IpAddr) -> Option<u32> {
        let mut all = self.addresses.range((address, 0)..=(address, u32::MAX));
        all.next().map(|&(_, index)| index)
    }

    /// What is known of an interface's link, which is followed from now on.
    pub(super) fn want(&mut self, index: u32) -> OtherLink {
        *self.links.entry(index).or_insert(OtherLink::Pending)
    }

    /// Takes in what the kernel says of a link. Returns whether paths are concerned.
    pub(super) fn learn(&mut self, index: u32, mac: Option<Mac>) -> bool {
        let now = OtherLink::Known(mac);
        let known = self.links.get_mut(&index);
        known.is_some_and(|known| std::mem::replace(known, now) != now)
    }

    /// Every link is asked for again when it is needed.
    pub(super) fn forget_links(&mut self) {
        self.links.clear();
    }
}

fn global(other: OtherAddress) -> Option<(IpAddr, u32)> {
    let is_of_a_link = match other.address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (!is_of_a_link).then_some((other.address, other.index))
}

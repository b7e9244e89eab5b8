//! Whether a default route leads through an interface.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::sys::netlink::{self, LINK_HEADERS, ROUTE_HEADERS, find};

/// Attributes of a link (`linux/if_link.h`).
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINK_NETNSID: u16 = 37;
/// Attributes of a route (`linux/rtnetlink.h`).
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
/// Offset of the link's index in a message about a link.
const LINK_INDEX: usize = 16 + 4;
/// Offset of the prefix length in a message about a route; the type follows.
const ROUTE_PREFIX: usize = 16 + 1;
const ROUTE_TYPE: usize = 16 + 7;
/// Length of `struct rtnexthop` without attributes, and the offset of the interface's index.
const NEXT_HOP: usize = 8;
const NEXT_HOP_INDEX: usize = 4;

/// Whether a default route of any routing table, IPv4 or IPv6, leads through the interface with
/// this index, or through one above it: a bond or bridge that it is part of, or a VLAN device.
/// Queries the network namespace of the calling thread.
///
/// # Errors
/// If the kernel does not answer.
pub fn has_default_route(index: u32) -> io::Result<bool> {
    let mut links = BTreeMap::new();
    netlink::dump(libc::RTM_GETLINK, &[0; 16], |message| {
        if let Some((link, neighbours)) = link(message) {
            links.insert(link, neighbours);
        }
    })?;
    let through = with_links_above(index, &links);
    let mut found = false;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut request = [0; 12];
        request[0] = family as u8;
        netlink::dump(libc::RTM_GETROUTE, &request, |message| {
            found |= default_route(message).any(|index| through.contains(&index));
        })?;
    }
    Ok(found)
}

/// The links above and below a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// The bond or bridge that it is part of.
    master: Option<u32>,
    /// The link below it, in the same network namespace.
    lower: Option<u32>,
}

/// The index and neighbours of a message's link.
pub(crate) fn link(message: &[u8]) -> Option<(u32, Neighbours)> {
    let index = number(message.get(LINK_INDEX..)?)?;
    let attributes = message.get(LINK_HEADERS..)?;
    let link_index = |kind| number(find(attributes, kind)?);
    let is_in_this_namespace = find(attributes, IFLA_LINK_NETNSID).is_none();
    let neighbours = Neighbours {
        master: link_index(IFLA_MASTER),
        lower: link_index(IFLA_LINK).filter(|_| is_in_this_namespace),
    };
    Some((index, neighbours))
}

/// An interface and all interfaces above it.
pub(crate) fn with_links_above(index: u32, links: &BTreeMap<u32, Neighbours>) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([index]);
    loop {
        let before = found.len();
        for (&link, neighbours) in links {
            if neighbours.lower.is_some_and(|lower| found.contains(&lower)) {
                found.insert(link);
            }
            if found.contains(&link) {
                found.extend(neighbours.master);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The interfaces of a message's route, if it is a default route.
pub(crate) fn default_route(message: &[u8]) -> impl Iterator<Item = u32> {
    let is_default = message.get(ROUTE_PREFIX) == Some(&0)
        && message.get(ROUTE_TYPE) == Some(&libc::RTN_UNICAST);
    let attributes = message.get(ROUTE_HEADERS..).filter(|_| is_default);
    let attributes = attributes.unwrap_or_default();
    let one = find(attributes, RTA_OIF).and_then(number);
    let several = find(attributes, RTA_MULTIPATH).unwrap_or_default();
    one.into_iter().chain(next_hops(several))
}

fn next_hops(mut hops: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*hops.first_chunk()?));
        let index = number(hops.get(NEXT_HOP_INDEX..)?)?;
        if len < NEXT_HOP {
            return None;
        }
        hops = hops.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(index)
    })
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::netlink::attribute;

    fn route(prefix: u8, kind: u8, attributes: &[u8]) -> Vec<u8> {
        let mut message = vec![0; ROUTE_HEADERS];
        message[ROUTE_PREFIX] = prefix;
        message[ROUTE_TYPE] = kind;
        message.extend(attributes);
        message
    }

    #[test]
    fn default_routes_lead_through_one_interface_or_several() {
        let through = |message: Vec<u8>| default_route(&message).collect::<Vec<_>>();
        let oif = attribute(RTA_OIF, &7_u32.to_ne_bytes());
        assert_eq!(through(route(0, libc::RTN_UNICAST, &oif)), [7]);
        assert_eq!(through(route(24, libc::RTN_UNICAST, &oif)), []);
        assert_eq!(through(route(0, libc::RTN_UNREACHABLE, &oif)), []);
        let hop =
            |len: u16, index: u32| [&len.to_ne_bytes()[..], &[0, 0], &index.to_ne_bytes()].concat();
        let mut first = hop(16, 3);
        first.extend([0; 8]);
        let hops = [first, hop(8, 4)].concat();
        let hops = attribute(RTA_MULTIPATH, &hops);
        assert_eq!(through(route(0, libc::RTN_UNICAST, &hops)), [3, 4]);
        // Cut short, or longer than it says.
        for hops in [hop(0, 3), hop(7, 3), hop(8, 3)[..6].to_vec()] {
            let hops = attribute(RTA_MULTIPATH, &hops);
            assert_eq!(through(route(0, libc::RTN_UNICAST, &hops)), []);
        }
        assert_eq!(through(Vec::new()), []);
    }

    #[test]
    fn a_link_of_another_namespace_is_not_below() {
        let message = |attributes: &[u8]| {
            let mut message = vec![0; LINK_HEADERS];
            message[LINK_INDEX..LINK_INDEX + 4].copy_from_slice(&5_u32.to_ne_bytes());
            message.extend(attributes);
            message
        };
        let lower = attribute(IFLA_LINK, &4_u32.to_ne_bytes());
        let master = attribute(IFLA_MASTER, &6_u32.to_ne_bytes());
        let both = [lower, master].concat();
        let neighbours = |lower| Neighbours {
            master: Some(6),
            lower,
        };
        assert_eq!(link(&message(&both)), Some((5, neighbours(Some(4)))));
        // There, 4 is the index of another link.
        let elsewhere = attribute(IFLA_LINK_NETNSID, &0_u32.to_ne_bytes());
        let all = [both, elsewhere].concat();
        assert_eq!(link(&message(&all)), Some((5, neighbours(None))));
    }

    #[test]
    fn links_above_an_interface_are_found() {
        let link = |lower, master| Neighbours { master, lower };
        // 2 and 3 are parts of the bond 4, which has the VLAN 5, which is part of the bridge 6.
        let links = BTreeMap::from([
            (2, link(None, Some(4))),
            (3, link(None, Some(4))),
            (4, link(None, None)),
            (5, link(Some(4), Some(6))),
            (6, link(None, None)),
            (7, link(None, None)),
        ]);
        assert_eq!(with_links_above(2, &links), BTreeSet::from([2, 4, 5, 6]));
        assert_eq!(with_links_above(5, &links), BTreeSet::from([5, 6]));
        assert_eq!(with_links_above(7, &links), BTreeSet::from([7]));
        // Each end of a veth pair is below the other.
        let cable = BTreeMap::from([(8, link(Some(9), None)), (9, link(Some(8), None))]);
        assert_eq!(with_links_above(8, &cable), BTreeSet::from([8, 9]));
    }

    #[test]
    fn a_missing_interface_has_no_default_route() {
        assert_eq!(has_default_route(u32::MAX >> 1).ok(), Some(false));
    }
}

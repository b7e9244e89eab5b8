//! What an interface offers to AF_XDP, and whether this process may use it: asked without
//! touching the interface, which a driver would answer by resetting its queues.

use std::io;

use roce_stack::port::PortError;

use crate::program::{Holder, Program, RedirectConfig, holder};
use crate::sys::netlink::{self, LINK_HEADERS, attribute, find};
use crate::sys::xsk;

/// Of `struct ifinfomsg`: the link's type, of which 1 is Ethernet.
const LINK_TYPE: usize = 16 + 2;
const ARPHRD_ETHER: u16 = 1;
/// Attributes of a link (`linux/if_link.h`).
const IFLA_NUM_RX_QUEUES: u16 = 32;

/// Family `netdev` (`linux/netdev.h`): what a driver's XDP can do. From Linux 6.3 on.
mod netdev {
    pub(super) const FAMILY: &str = "netdev";
    pub(super) const DEV_GET: u8 = 1;
    pub(super) const IFINDEX: u16 = 1;
    pub(super) const XDP_FEATURES: u16 = 3;
    /// The program runs in the driver, which can redirect to sockets.
    pub(super) const NATIVE: u64 = 1 | 2;
    pub(super) const ZERO_COPY: u64 = 8;
}

/// Family `ethtool` (`linux/ethtool_netlink.h`): how many queues are in use.
mod ethtool {
    pub(super) const FAMILY: &str = "ethtool";
    pub(super) const CHANNELS_GET: u8 = 17;
    pub(super) const CHANNELS_HEADER: u16 = 1;
    pub(super) const HEADER_DEV_INDEX: u16 = 1;
    /// The attribute's flag for one that holds attributes.
    pub(super) const NESTED: u16 = 0x8000;
    pub(super) const RX_COUNT: u16 = 6;
    pub(super) const COMBINED_COUNT: u16 = 9;
}

/// What an interface offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether it is Ethernet: nothing else can be sent on.
    pub ethernet: bool,
    /// Queues that frames arrive at; at least one.
    pub queues: u32,
    /// What its driver can do; kernels before 6.3 don't tell.
    pub driver: Option<DriverOffer>,
    /// The program that is attached already, if there is one.
    pub holder: Option<Holder>,
}

/// What the driver of an interface can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOffer {
    /// The redirect program can run in it; else it runs in the kernel, generically.
    pub native: bool,
    /// It can read and write frames in our memory.
    pub zero_copy: bool,
}

/// What the interface of this index offers, in the network namespace of the calling thread.
///
/// # Errors
/// If there is no such interface, or the kernel does not tell.
pub fn of_interface(index: u32) -> io::Result<Offer> {
    let link = netlink::link(index)?;
    let kind = link.get(LINK_TYPE..LINK_TYPE + 2);
    let attributes = link.get(LINK_HEADERS..).unwrap_or_default();
    Ok(Offer {
        ethernet: kind == Some(&ARPHRD_ETHER.to_ne_bytes()),
        queues: channels(index)
            .or_else(|| number(attributes, IFLA_NUM_RX_QUEUES))
            .unwrap_or(1)
            .max(1),
        driver: driver(index),
        holder: holder(index)?,
    })
}

/// Whether this process may open AF_XDP sockets and load the redirect program.
///
/// # Errors
/// What it may not.
pub fn permission() -> Result<(), PortError> {
    xsk::socket().map_err(|source| PortError {
        what: "making an AF_XDP socket (it takes CAP_NET_RAW)".to_owned(),
        source,
    })?;
    let program = Program::load(1, &RedirectConfig::default());
    program.map(drop).map_err(|error| PortError {
        what: error.what,
        source: error.source,
    })
}

/// Queues that frames arrive at, if the driver tells.
fn channels(index: u32) -> Option<u32> {
    let device = attribute(ethtool::HEADER_DEV_INDEX, &index.to_ne_bytes());
    let header = attribute(ethtool::CHANNELS_HEADER | ethtool::NESTED, &device);
    let answer = netlink::generic(ethtool::FAMILY, ethtool::CHANNELS_GET, &header).ok()?;
    let count = |kind| number(&answer, kind).unwrap_or_default();
    let queues = count(ethtool::RX_COUNT).saturating_add(count(ethtool::COMBINED_COUNT));
    (queues > 0).then_some(queues)
}

fn driver(index: u32) -> Option<DriverOffer> {
    let request = attribute(netdev::IFINDEX, &index.to_ne_bytes());
    let answer = netlink::generic(netdev::FAMILY, netdev::DEV_GET, &request).ok()?;
    let features = find(&answer, netdev::XDP_FEATURES)?.first_chunk().copied();
    Some(driver_of(u64::from_ne_bytes(features?)))
}

fn driver_of(features: u64) -> DriverOffer {
    DriverOffer {
        native: features & netdev::NATIVE == netdev::NATIVE,
        zero_copy: features & netdev::ZERO_COPY != 0,
    }
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    let value = find(attributes, kind)?.first_chunk().copied()?;
    Some(u32::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_cannot_redirect_is_no_native_one() {
        let of = |native, zero_copy| DriverOffer { native, zero_copy };
        assert_eq!(driver_of(0), of(false, false));
        assert_eq!(driver_of(1), of(false, false));
        assert_eq!(driver_of(0x2b), of(true, true));
        assert_eq!(driver_of(0x23), of(true, false));
    }

    /// Every machine has a loopback interface, with index 1.
    #[test]
    fn the_loopback_offers_one_queue_and_no_ethernet() {
        let offer = of_interface(1).expect("it is there");
        assert!(!offer.ethernet);
        assert_eq!(offer.queues, 1);
        if let Some(driver) = offer.driver {
            assert!(!driver.zero_copy);
        }
    }

    #[test]
    fn an_interface_that_is_not_there_offers_nothing() {
        assert!(of_interface(u32::MAX >> 1).is_err());
    }
}

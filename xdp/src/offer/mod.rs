//! Queries what an interface supports for AF_XDP, and whether this process may use AF_XDP. The
//! queries bind no AF_XDP socket and attach no program, because a driver may reset its queues when
//! either happens.

pub(crate) mod routes;
mod virtio;

pub use routes::has_default_route;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use roce_port::PortError;

use crate::program::{Holder, Program, RedirectConfig, holder};
use crate::sys::netlink::{self, LINK_HEADERS, attribute, find};
use crate::sys::xsk;
use crate::umem::{LINK_OVERHEAD_BYTES, RX_PIECE_BYTES};

/// Offset of the link type in `struct ifinfomsg`. Type 1 is Ethernet.
const LINK_TYPE: usize = 16 + 2;
const ARPHRD_ETHER: u16 = 1;
/// Attributes of a link (`linux/if_link.h`).
const IFLA_IFNAME: u16 = 3;
const IFLA_NUM_RX_QUEUES: u16 = 32;

/// Family `netdev` (`linux/netdev.h`): the XDP features of a driver. Since Linux 6.3.
mod netdev {
    pub(super) const FAMILY: &str = "netdev";
    pub(super) const DEV_GET: u8 = 1;
    pub(super) const IFINDEX: u16 = 1;
    pub(super) const XDP_FEATURES: u16 = 3;
    pub(super) const ZERO_COPY_PIECES: u16 = 4;
    pub(super) const XSK_FEATURES: u16 = 6;
    /// The program runs in the driver, which can redirect to sockets.
    pub(super) const NATIVE: u64 = 1 | 2;
    pub(super) const ZERO_COPY: u64 = 8;
    /// The offloads of the driver for frames that it sends from user memory. Since Linux 6.8.
    pub(super) const TX_TIMESTAMP: u64 = 1;
    pub(super) const TX_CHECKSUM: u64 = 2;
}

/// Family `ethtool` (`linux/ethtool_netlink.h`): the number of queues in use.
mod ethtool {
    pub(super) const FAMILY: &str = "ethtool";
    pub(super) const CHANNELS_GET: u8 = 17;
    pub(super) const CHANNELS_HEADER: u16 = 1;
    pub(super) const HEADER_DEV_INDEX: u16 = 1;
    /// The flag of an attribute that contains attributes.
    pub(super) const NESTED: u16 = 0x8000;
    pub(super) const RX_COUNT: u16 = 6;
    pub(super) const COMBINED_COUNT: u16 = 9;
}

/// The properties of an interface that matter for AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether it is Ethernet. Other links are not supported.
    pub ethernet: bool,
    /// Number of receive queues; at least one.
    pub queues: u32,
    /// The capabilities of the driver; `None` on kernels before 6.3, which don't report them.
    pub driver: Option<DriverOffer>,
    /// The program that is already attached, if there is one.
    pub holder: Option<Holder>,
}

/// The capabilities of the driver of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOffer {
    /// Whether the redirect program can run in the driver. Otherwise it runs in the kernel, in
    /// generic mode.
    pub native: bool,
    /// Whether the driver can read and write frames in user memory.
    pub zero_copy: bool,
    /// The maximum number of pieces of a frame in user memory; 1 on kernels before 6.6.
    pub zero_copy_pieces: u32,
    /// Whether the driver can fill in the UDP checksum of frames in user memory.
    pub tx_checksum: bool,
    /// Whether the driver reports when it has sent a frame from user memory.
    pub tx_timestamp: bool,
    /// Why the driver refuses programs although the kernel reports support, if a reason is known.
    pub refusal: Option<&'static str>,
}

/// The maximum number of bytes in each piece of a frame that has several pieces. The kernel keeps
/// 320 bytes after each piece for its own use, and the driver gets the rest in units of 128.
const MULTI_PIECE_BYTES: usize = (RX_PIECE_BYTES - 320) / 128 * 128;

impl DriverOffer {
    /// Marks the driver as refusing programs, for this reason.
    fn with_refusal(self, reason: &'static str) -> Self {
        Self {
            native: false,
            zero_copy: false,
            refusal: Some(reason),
            ..self
        }
    }

    /// The largest link MTU, in bytes, at which the driver can read and write frames in user
    /// memory; 0 without zero-copy. Linux 7.2 refuses zero-copy with a larger MTU. Older kernels
    /// lost longer frames.
    pub fn zero_copy_mtu(&self) -> usize {
        let multi_piece = (self.zero_copy_pieces as usize).saturating_mul(MULTI_PIECE_BYTES);
        match self.zero_copy {
            true if self.zero_copy_pieces > 1 => {
                multi_piece.max(RX_PIECE_BYTES) - LINK_OVERHEAD_BYTES
            }
            true => RX_PIECE_BYTES - LINK_OVERHEAD_BYTES,
            false => 0,
        }
    }
}

/// Queries the interface with this index, in the network namespace of the calling thread.
///
/// # Errors
/// If there is no such interface, or the kernel does not report it.
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

/// Checks whether this process may open AF_XDP sockets and load the redirect program.
///
/// # Errors
/// The operation that the process may not do, and the required capabilities.
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

/// Number of receive queues, if the driver reports it.
fn channels(index: u32) -> Option<u32> {
    let device = attribute(ethtool::HEADER_DEV_INDEX, &index.to_ne_bytes());
    let header = attribute(ethtool::CHANNELS_HEADER | ethtool::NESTED, &device);
    let answer = netlink::generic(ethtool::FAMILY, ethtool::CHANNELS_GET, &header).ok()?;
    queues_in(&answer)
}

/// Number of receive queues in the driver's answer.
pub(crate) fn queues_in(answer: &[u8]) -> Option<u32> {
    let count = |kind| number(answer, kind).unwrap_or_default();
    let queues = count(ethtool::RX_COUNT).saturating_add(count(ethtool::COMBINED_COUNT));
    (queues > 0).then_some(queues)
}

pub(crate) fn driver(index: u32) -> Option<DriverOffer> {
    let request = attribute(netdev::IFINDEX, &index.to_ne_bytes());
    let answer = netlink::generic(netdev::FAMILY, netdev::DEV_GET, &request).ok()?;
    let driver = driver_of(&answer)?;
    Some(match refusal(index) {
        None => driver,
        Some(reason) => driver.with_refusal(reason),
    })
}

/// Why the driver refuses programs, if a reason is known before attaching one.
fn refusal(index: u32) -> Option<&'static str> {
    let link = netlink::link(index).ok()?;
    let name = find(link.get(LINK_HEADERS..)?, IFLA_IFNAME)?;
    virtio::refusal(OsStr::from_bytes(name.strip_suffix(&[0])?), index)
}

/// Reads the attributes of a device.
pub(crate) fn driver_of(attributes: &[u8]) -> Option<DriverOffer> {
    let flags = |kind| {
        let value = find(attributes, kind)?.first_chunk().copied()?;
        Some(u64::from_ne_bytes(value))
    };
    let features = flags(netdev::XDP_FEATURES)?;
    let offloads = flags(netdev::XSK_FEATURES).unwrap_or_default();
    Some(DriverOffer {
        native: features & netdev::NATIVE == netdev::NATIVE,
        zero_copy: features & netdev::ZERO_COPY != 0,
        zero_copy_pieces: number(attributes, netdev::ZERO_COPY_PIECES).unwrap_or(1),
        tx_checksum: offloads & netdev::TX_CHECKSUM != 0,
        tx_timestamp: offloads & netdev::TX_TIMESTAMP != 0,
        refusal: None,
    })
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    let value = find(attributes, kind)?.first_chunk().copied()?;
    Some(u32::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: DriverOffer = DriverOffer {
        native: false,
        zero_copy: false,
        zero_copy_pieces: 1,
        tx_checksum: false,
        tx_timestamp: false,
        refusal: None,
    };

    fn features(flags: u64) -> Vec<u8> {
        attribute(netdev::XDP_FEATURES, &flags.to_ne_bytes())
    }

    #[test]
    fn a_driver_without_redirect_is_not_native() {
        let of = |native, zero_copy| {
            Some(DriverOffer {
                native,
                zero_copy,
                ..NOTHING
            })
        };
        assert_eq!(driver_of(&features(0)), of(false, false));
        assert_eq!(driver_of(&features(1)), of(false, false));
        assert_eq!(driver_of(&features(0x2b)), of(true, true));
        assert_eq!(driver_of(&features(0x23)), of(true, false));
        assert_eq!(driver_of(&[]), None);
    }

    #[test]
    fn offloads_of_a_driver_are_read() {
        let of = |offloads: u64| {
            let mut attributes = features(0x2b);
            attributes.extend(attribute(netdev::ZERO_COPY_PIECES, &8_u32.to_ne_bytes()));
            attributes.extend(attribute(netdev::XSK_FEATURES, &offloads.to_ne_bytes()));
            driver_of(&attributes).map(|driver| (driver.tx_timestamp, driver.tx_checksum))
        };
        assert_eq!(of(0), Some((false, false)));
        assert_eq!(of(1), Some((true, false)));
        assert_eq!(of(2), Some((false, true)));
        assert_eq!(of(7), Some((true, true)));
        // Cut short.
        let mut attributes = features(0x2b);
        attributes.extend(attribute(netdev::XSK_FEATURES, &[2, 0, 0, 0]));
        let driver = driver_of(&attributes).expect("its features are there");
        assert!(!driver.tx_checksum);
    }

    /// The values of Linux 7.2: with a larger MTU, binding the socket fails with EINVAL.
    #[test]
    fn zero_copy_limits_the_mtu() {
        let of = |zero_copy, zero_copy_pieces| {
            let driver = DriverOffer {
                zero_copy,
                zero_copy_pieces,
                ..NOTHING
            };
            driver.zero_copy_mtu()
        };
        assert_eq!(of(false, 8), 0);
        assert_eq!(of(true, 0), 3814);
        assert_eq!(of(true, 1), 3814);
        assert_eq!(of(true, 2), 2 * 3456 - 26);
        assert_eq!(of(true, 8), 8 * 3456 - 26);
    }

    /// Every machine has a loopback interface, with index 1.
    #[test]
    fn the_loopback_interface_has_one_queue_and_no_ethernet() {
        let offer = of_interface(1).expect("it is there");
        assert!(!offer.ethernet);
        assert_eq!(offer.queues, 1);
        if let Some(driver) = offer.driver {
            assert!(!driver.zero_copy);
        }
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        assert!(of_interface(u32::MAX >> 1).is_err());
    }
}

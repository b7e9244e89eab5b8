//! Two hosts with a cable between them, for tests that run as root.

use std::net::IpAddr;

use roce_udp::{UdpPort, UdpPortConfig};
use testkit::veth::{self, End};

use super::open_with;

pub(crate) const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 91, 0, 1));
pub(crate) const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 91, 0, 2));
pub(crate) const NEAR_LOCAL: &str = "fe80::1";
pub(crate) const FAR_LOCAL: &str = "fe80::2";
const MTU: usize = 9000;

/// The link-local addresses of the near and the far end.
pub(crate) fn link_local() -> (IpAddr, IpAddr) {
    let parse = |text: &str| text.parse().expect("an address");
    (parse(NEAR_LOCAL), parse(FAR_LOCAL))
}

/// Interface `near` with [`NEAR`] in one namespace, `far` with [`FAR`] in another.
pub(crate) struct Pair {
    pub(crate) near: End,
    pub(crate) far: End,
}

impl Pair {
    /// See [`veth::Pair::new_or_skip`]. The ends know each other's MAC addresses: later packets would
    /// overtake those that wait for an ARP reply.
    pub(crate) fn new_or_skip() -> Option<Self> {
        let veth::Pair { near, far } = veth::Pair::new_or_skip(MTU, 1)?;
        for (end, peer) in [(&near, &far), (&far, &near)] {
            for address in [IpAddr::from(peer.ip4), peer.local.into()] {
                end.run(&format!(
                    "ip neighbour replace {address} lladdr {} dev {} nud permanent",
                    peer.mac_text(),
                    end.interface
                ));
            }
        }
        Some(Self { near, far })
    }

    pub(crate) fn near_config(&self) -> UdpPortConfig {
        config(&self.near)
    }

    pub(crate) fn far_config(&self) -> UdpPortConfig {
        config(&self.far)
    }

    /// Ports at both ends.
    pub(crate) fn ports(&self) -> (UdpPort, UdpPort) {
        let (near, far) = (self.near_config(), self.far_config());
        (
            self.near.enter(|| open_with(near)),
            self.far.enter(|| open_with(far)),
        )
    }
}

fn config(end: &End) -> UdpPortConfig {
    let addresses = vec![end.ip4.into(), end.local.into()];
    UdpPortConfig::new(end.interface, end.index(), MTU, addresses)
}

//! The machine's network interfaces, as far as a RoCE device needs to know them.

use std::net::IpAddr;

/// A network interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its hardware address; zeros if it has none, as the loopback.
    pub mac: [u8; 6],
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Whether it is up.
    pub up: bool,
    /// Whether it is up and has a link.
    pub running: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// All interfaces. One whose MTU can't be had (it went away just now) is left out.
pub fn interfaces() -> Vec<Interface> {
    pnet_datalink::interfaces()
        .into_iter()
        .filter_map(|found| {
            let mtu = roce_udp::interface_mtu(&found.name).ok()?;
            Some(Interface {
                up: found.is_up(),
                running: found.is_up() && found.is_running(),
                addresses: found.ips.iter().map(|network| network.ip()).collect(),
                index: found.index,
                mac: found.mac.unwrap_or_default().octets(),
                name: found.name,
                mtu,
            })
        })
        .collect()
}

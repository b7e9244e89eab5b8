//! The host's network interfaces, with the attributes that a RoCE device needs.

use crate::netlink::links;
use std::io;
use std::net::IpAddr;

/// A network interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its hardware address; zeros if it has none, like the loopback.
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

/// All interfaces of the calling thread's network namespace.
///
/// # Errors
/// If the system can't list the interfaces, for instance because the process has no descriptor
/// left. The caller must not treat the error as an interface without addresses.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let interfaces = links()?.into_iter().map(|link| Interface {
        up: link.has(libc::IFF_UP),
        running: link.has(libc::IFF_UP) && link.has(libc::IFF_RUNNING),
        index: link.index,
        mac: link.mac.unwrap_or_default(),
        mtu: link.mtu as usize,
        name: link.name,
        addresses: link.addresses,
    });
    Ok(interfaces.collect())
}

//! The host's network interfaces, with the attributes that a RoCE device needs.

use crate::error::OpenError;
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

/// All interfaces. An interface that disappears during the call is left out.
///
/// # Errors
/// If the system can't list the interfaces, for instance because the process has no descriptor
/// left.
pub fn interfaces() -> Result<Vec<Interface>, OpenError> {
    try_interfaces().map_err(|source| OpenError::System {
        what: "listing the network interfaces",
        source,
    })
}

/// Like [`interfaces`], with the system's error.
///
/// # Errors
/// If the system can't list the interfaces, for instance because the process has no descriptor
/// left. The caller must not treat the error as an interface without addresses.
pub(crate) fn try_interfaces() -> io::Result<Vec<Interface>> {
    let found = pnet_datalink::interfaces();
    if found.is_empty() {
        // Every network namespace has a loopback.
        return Err(io::Error::last_os_error());
    }
    let mut interfaces = Vec::with_capacity(found.len());
    for found in found {
        let mtu = match roce_udp::interface_mtu(&found.name) {
            Ok(mtu) => mtu,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
            Err(error) => return Err(error),
        };
        interfaces.push(Interface {
            up: found.is_up(),
            running: found.is_up() && found.is_running(),
            addresses: found.ips.iter().map(|network| network.ip()).collect(),
            index: found.index,
            mac: found.mac.unwrap_or_default().octets(),
            name: found.name,
            mtu,
        });
    }
    Ok(interfaces)
}

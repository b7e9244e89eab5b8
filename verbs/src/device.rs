//! Devices: one for each network interface that has an address. Opening a [`Device`] gives a
//! [`Context`].

pub use crate::context::Context;
pub use crate::environment::BOARD_ID;
pub use crate::error::{OpenError, StartError};
pub use crate::events::{AsyncEvents, Unacknowledged};
pub use crate::gid::{Gid, GidEntry, GidKind, ParseGidError};
pub use crate::limits::{CountedObject, LimitedObject, ObjectCounts, TooManyObjects};
pub use crate::runtime::{Driving, EventQueue};
pub use roce_stack::{Event, QpnRange, RoceVersion, TxMeta};
pub use roce_trust::Interface;

use crate::environment::{self, GivenNames, default_name};
use crate::gid::GidTable;
use roce_stack::largest_path_mtu;
use roce_wire::PathMtu;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A RoCE device: a network interface that carries RDMA.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    interface: Interface,
    guid: u64,
    /// Addresses that the caller added to the interface's own.
    extra_addresses: Vec<IpAddr>,
}

const VARIABLE: &str = "ROCE_DEVICES";

/// All interfaces.
///
/// # Errors
/// If the system can't list the interfaces, for instance because the process has no descriptor
/// left.
pub fn interfaces() -> Result<Vec<Interface>, OpenError> {
    roce_trust::interfaces().map_err(OpenError::system("listing the network interfaces"))
}

/// The devices of this process, in the order of [`all_devices`]: those that `ROCE_DEVICES`
/// [selects](Device::is_among), or all devices if it is not set.
///
/// # Errors
/// As for [`interfaces`].
pub fn devices() -> Result<Vec<Device>, OpenError> {
    let devices = selected_devices()?;
    if !devices.is_empty() {
        #[cfg(feature = "observe")]
        roce_observe::tally::note_list();
    }
    Ok(devices)
}

fn selected_devices() -> Result<Vec<Device>, OpenError> {
    let mut devices = all_devices()?;
    if let Some(names) = environment::value(VARIABLE) {
        devices.retain(|device| device.is_among(&names.to_string_lossy()));
    }
    Ok(devices)
}

/// All devices, regardless of `ROCE_DEVICES`: the interfaces that are up and have an address, the
/// loopback last.
///
/// # Errors
/// As for [`interfaces`].
pub fn all_devices() -> Result<Vec<Device>, OpenError> {
    let all = interfaces()?;
    let guids = guids(&all);
    let mut found: Vec<Device> = all
        .into_iter()
        .zip(guids)
        .filter(|(interface, _)| interface.up && !interface.addresses.is_empty())
        .map(|(interface, guid)| Device {
            name: default_name(&interface.name),
            interface,
            guid,
            extra_addresses: Vec::new(),
        })
        .collect();
    found.sort_by_key(|device| (device.is_loopback(), device.interface.index));
    for (place, name) in given_names(&found).names {
        if let Some(device) = found.get_mut(place) {
            device.name = name;
        }
    }
    Ok(found)
}

/// The names that the environment gives to these devices.
pub(crate) fn given_names(devices: &[Device]) -> GivenNames {
    let interfaces: Vec<_> = devices
        .iter()
        .map(|it| it.interface.name.as_str())
        .collect();
    GivenNames::from_environment(&interfaces)
}

fn guids(all: &[Interface]) -> Vec<u64> {
    let mut guids = vec![0; all.len()];
    let mut by_index: Vec<usize> = (0..all.len()).collect();
    by_index.sort_by_key(|at| all[*at].index);
    for at in by_index {
        let Interface {
            mac, index, name, ..
        } = &all[at];
        let [.., a, b] = index.to_be_bytes();
        let mac = if *mac == [0; 6] {
            [2, 0, 0, 0, a, b]
        } else {
            *mac
        };
        let mut middle = EUI_64;
        while guids.contains(&guid(mac, middle)) {
            middle = match middle {
                EUI_64 => hash(name),
                hash => hash.wrapping_add(1),
            };
        }
        guids[at] = guid(mac, middle);
    }
    guids
}

/// The middle of an EUI-64 that is made from a hardware address.
const EUI_64: u16 = 0xfffe;

fn guid([a, b, c, d, e, f]: [u8; 6], middle: u16) -> u64 {
    let [x, y] = middle.to_be_bytes();
    u64::from_be_bytes([a ^ 2, b, c, x, y, d, e, f])
}

/// The FNV-1a hash of a name, folded to 16 bits.
fn hash(name: &str) -> u16 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, mix);
    (hash ^ hash >> 16) as u16
}

/// The source address that the system's routes choose for packets to `remote`. Sends nothing.
pub(crate) fn source_address_for(mut remote: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    remote.set_port(4791);
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(remote)?;
    Ok(socket.local_addr()?.ip())
}

impl Device {
    /// The device with this name, as [`Device::name`] gives it.
    ///
    /// # Errors
    /// If no device has this name (the error lists the names of the devices), or the system can't list
    /// the interfaces.
    pub fn named(name: &str) -> Result<Self, OpenError> {
        let all = selected_devices()?;
        let known = all.iter().map(Device::name).collect();
        all.into_iter()
            .find(|device| device.name == name)
            .ok_or_else(|| OpenError::UnknownDevice {
                name: name.to_owned(),
                known,
            })
    }

    /// The device whose interface has `address`. The loopback interface has every address of
    /// 127.0.0.0/8.
    ///
    /// # Errors
    /// If no interface has the address (the error lists the names of the devices), or the system can't
    /// list the interfaces.
    pub fn with_address(address: IpAddr) -> Result<Self, OpenError> {
        let all = selected_devices()?;
        let known = all.iter().map(Device::name).collect();
        let has = |device: &Device| device.interface.addresses.contains(&address);
        if let Some(device) = all.iter().find(|device| has(device)) {
            return Ok(device.clone());
        }
        match all
            .into_iter()
            .find(|device| device.is_loopback() && address.is_loopback())
        {
            Some(mut loopback) if address.is_ipv4() => {
                loopback.extra_addresses.push(address);
                Ok(loopback)
            }
            _ => Err(OpenError::NoSuchAddress { address, known }),
        }
    }

    /// The device that the system's routes choose for packets to `remote`.
    ///
    /// # Errors
    /// If there is no route to `remote`.
    pub fn towards(remote: IpAddr) -> Result<Self, OpenError> {
        let local = source_address_for(SocketAddr::new(remote, 0))
            .map_err(OpenError::system("finding the route to the peer"))?;
        Self::with_address(local)
    }

    /// The device's name: `roce_` followed by the interface's name, unless `ROCE_DEVICE_NAMES` gives it
    /// another.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Whether `names` selects the device: it contains the device's or its interface's name, or it begins
    /// with `^` and does not contain either. Commas separate the names.
    pub fn is_among(&self, names: &str) -> bool {
        let is_named = |name| name == self.name || name == self.interface.name;
        match names.strip_prefix('^') {
            Some(others) => !others.split(',').any(is_named),
            None => names.split(',').any(is_named),
        }
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether the device is the loopback: all its addresses are loopback addresses.
    pub fn is_loopback(&self) -> bool {
        let addresses = &self.interface.addresses;
        !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
    }

    /// The largest path MTU whose packets fit in the interface's MTU.
    pub fn active_mtu(&self) -> PathMtu {
        // The IPv6 and UDP headers. An IPv4 header is shorter.
        largest_path_mtu(self.interface.mtu.saturating_sub(48))
    }

    /// The device's GUID, which no other device of this host has: the EUI-64 of the hardware address,
    /// or, if the interface has none, of an address made from the interface's index. If several
    /// interfaces have one hardware address, such as VLANs and the interface below them, those after
    /// the first have the hash of their name in the middle. The GUID stays the same as long as these
    /// interfaces exist, and after a restart of the host.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// The GID table that the device would have if it were opened now, without RoCE v1. The entries
    /// of an open device keep their indices, see [`Context::gids`](crate::Context::gids).
    pub fn gids(&self) -> Vec<GidEntry> {
        GidTable::new(&self.known_addresses(), false).entries()
    }

    /// Whether the interface is up now and has a link.
    pub fn is_running(&self) -> bool {
        match self.current_interface() {
            Ok(found) => found.is_some_and(|found| found.running),
            // The system can't list the interfaces. Assume that nothing has changed.
            Err(_) => self.interface.running,
        }
    }

    /// The current state of the interface; `None` if the interface is gone.
    fn current_interface(&self) -> io::Result<Option<Interface>> {
        let mut all = roce_trust::interfaces()?.into_iter();
        Ok(all.find(|found| found.index == self.interface.index))
    }

    /// The interface's current addresses, and those that the caller added.
    ///
    /// # Errors
    /// If the system can't list the interfaces.
    pub(crate) fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let now = self.current_interface()?;
        let mut addresses = now.map(|found| found.addresses).unwrap_or_default();
        addresses.extend(&self.extra_addresses);
        Ok(addresses)
    }

    /// Like [`Device::addresses`]. If the system can't list the interfaces, the addresses are those
    /// from when the device was listed.
    pub(crate) fn known_addresses(&self) -> Vec<IpAddr> {
        let known = || {
            let own = self.interface.addresses.iter();
            own.chain(&self.extra_addresses).copied().collect()
        };
        self.addresses().unwrap_or_else(|_| known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_with_one_hardware_address_have_guids_of_their_own() {
        let interface = |index, name: &str, mac| Interface {
            name: name.to_owned(),
            index,
            mac,
            mtu: 1500,
            up: true,
            running: true,
            addresses: Vec::new(),
        };
        let mac = [0x02, 0, 0, 0x12, 0x34, 0x56];
        let eth0 = interface(2, "eth0", mac);
        let vlan = |index, name| interface(index, name, mac);
        let found = guids(&[
            vlan(9, "eth0.6"),
            interface(1, "lo", [0; 6]),
            eth0.clone(),
            vlan(8, "eth0.5"),
        ]);
        // The first has its EUI-64, and the loopback has no hardware address.
        assert_eq!(found[2], 0x0000_00ff_fe12_3456);
        assert_eq!(found[1], 0x0000_00ff_fe00_0001);
        let different: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(different.len(), 4, "{found:x?}");
        // After a restart, the interfaces have other indices.
        let again = guids(&[eth0, vlan(5, "eth0.6"), vlan(6, "eth0.5")]);
        assert_eq!(again, [found[2], found[0], found[3]]);
    }

    #[test]
    fn guids_differ_although_hashes_of_names_do_not() {
        let all: Vec<Interface> = (1..2000)
            .map(|index| Interface {
                name: format!("vlan{index}"),
                index,
                mac: [2; 6],
                mtu: 1500,
                up: true,
                running: true,
                addresses: Vec::new(),
            })
            .collect();
        let names: std::collections::HashSet<_> = all.iter().map(|i| hash(&i.name)).collect();
        assert!(names.len() < all.len(), "no two hashes are the same");
        let different: std::collections::HashSet<_> = guids(&all).into_iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn the_error_names_an_address_that_no_interface_has() {
        // The address is in a range reserved for documentation (RFC 5737), so no host has it.
        let address = IpAddr::from([192, 0, 2, 77]);
        let error = Device::with_address(address).expect_err("no such address");
        let text = error.to_string();
        assert!(
            text.starts_with("no interface has the address 192.0.2.77; the devices are: roce_"),
            "{text}"
        );
    }
}

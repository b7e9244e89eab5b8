//! Devices: one for each network interface that has an address.

use crate::context::Context;
use crate::error::OpenError;
use crate::gid::{self, GidEntry};
use crate::interfaces::{Interface, interfaces};
use crate::options::OpenOptions;
use roce_stack::largest_path_mtu;
use roce_stack::port::Port;
use roce_udp::{UdpPort, UdpPortConfig};
use roce_wire::PathMtu;
use std::net::IpAddr;

/// A RoCE device: a network interface through which RDMA can be done.
#[derive(Clone, Debug)]
pub struct Device {
    interface: Interface,
    /// Addresses that the caller added to the interface's own.
    extra: Vec<IpAddr>,
}

/// How a device's packets get to the network and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// Its name: `udp`, sockets.
    pub name: &'static str,
    /// The largest packet, from BTH to ICRC, in bytes.
    pub max_packet_bytes: usize,
    /// Bytes that the kernel keeps for each address until the device takes them.
    pub receive_buffer_bytes: usize,
    /// Whether packets are handed to the kernel many at a time.
    pub segmentation: bool,
    /// Whether the kernel hands packets over many at a time.
    pub coalescing: bool,
    /// The datapaths that were not taken, and why.
    pub not_taken: &'static [(&'static str, &'static str)],
}

/// All devices: the interfaces that are up and have an address, the loopback last.
pub fn devices() -> Vec<Device> {
    let mut found: Vec<Device> = interfaces()
        .into_iter()
        .filter(|interface| interface.up && !interface.addresses.is_empty())
        .map(|interface| Device {
            interface,
            extra: Vec::new(),
        })
        .collect();
    found.sort_by_key(|device| (device.is_loopback(), device.interface.index));
    found
}

impl Device {
    /// The device with this name, as [`Device::name`] gives it.
    ///
    /// # Errors
    /// If there is none; the error names those that there are.
    pub fn named(name: &str) -> Result<Self, OpenError> {
        let all = devices();
        let known = all.iter().map(Device::name).collect();
        all.into_iter()
            .find(|device| device.name() == name)
            .ok_or_else(|| OpenError::UnknownDevice {
                name: name.to_owned(),
                known,
            })
    }

    /// The device whose interface has `address`. Any address of 127.0.0.0/8 is one
    /// of the loopback interface.
    ///
    /// # Errors
    /// If no interface has it; the error names the devices that there are.
    pub fn with_address(address: IpAddr) -> Result<Self, OpenError> {
        let all = devices();
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
                loopback.extra.push(address);
                Ok(loopback)
            }
            _ => Err(OpenError::UnknownDevice {
                name: format!("with address {address}"),
                known,
            }),
        }
    }

    /// Its name: `roce_` and the interface's.
    pub fn name(&self) -> String {
        format!("roce_{}", self.interface.name)
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Whether it is the loopback.
    pub fn is_loopback(&self) -> bool {
        let addresses = &self.interface.addresses;
        !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
    }

    /// The largest path MTU whose packets fit in the interface's MTU.
    pub fn active_mtu(&self) -> PathMtu {
        // IPv6 and UDP headers; IPv4's are shorter.
        largest_path_mtu(self.interface.mtu.saturating_sub(48))
    }

    /// Its GID table as of now.
    pub fn gids(&self) -> Vec<GidEntry> {
        gid::table(&self.addresses())
    }

    /// Whether the interface is up now and has a link.
    pub fn is_running(&self) -> bool {
        self.interface_now().is_some_and(|found| found.running)
    }

    fn interface_now(&self) -> Option<Interface> {
        interfaces()
            .into_iter()
            .find(|found| found.index == self.interface.index)
    }

    /// The addresses that the interface has now, and those added to them.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let now = self.interface_now();
        let mut addresses = now.map(|found| found.addresses).unwrap_or_default();
        addresses.extend(&self.extra);
        addresses
    }

    /// How packets of this device travel, and why not otherwise.
    pub fn datapath(&self) -> Datapath {
        let port = self.port();
        let offer = port.offer();
        Datapath {
            name: "udp",
            max_packet_bytes: port.capabilities().max_packet_bytes,
            receive_buffer_bytes: offer.receive_buffer_bytes,
            segmentation: offer.segmentation,
            coalescing: offer.coalescing,
            not_taken: &[("xdp", "AF_XDP is not there yet in this version")],
        }
    }

    /// A port of the interface, with no address activated.
    pub(crate) fn port(&self) -> UdpPort {
        UdpPort::new(UdpPortConfig::new(
            self.interface.name.clone(),
            self.interface.index,
            self.interface.mtu,
            self.addresses(),
        ))
    }

    /// Opens it, as the environment asks for; see [`OpenOptions`] for other ways.
    ///
    /// # Errors
    /// If the operating system refuses a thread or a descriptor, or the environment
    /// asks for something malformed.
    pub fn open(&self) -> Result<Context, OpenError> {
        OpenOptions::from_env()?.open(self)
    }
}

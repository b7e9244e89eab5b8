//! Two network namespaces, or one, and a cable between two interfaces: a veth pair.

use crate::namespace::{Namespace, namespaces_or_skip};
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::Arc;

/// One end of a cable, in a namespace of its own unless both are on one host.
#[derive(Debug)]
pub struct End {
    namespace: Arc<Namespace>,
    /// The interface.
    pub interface: &'static str,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address, with a prefix of 24 bits.
    pub ip4: Ipv4Addr,
    /// Its IPv6 address, with a prefix of 64 bits.
    pub ip6: Ipv6Addr,
    /// Its link-local address.
    pub local: Ipv6Addr,
}

/// A cable between `near` and `far`. It disappears with the last process in its namespaces.
#[derive(Debug)]
pub struct Pair {
    /// One end: interface `near` with 10.91.0.1, fd91::1 and fe80::1.
    pub near: End,
    /// The other: interface `far` with 10.91.0.2, fd91::2 and fe80::2.
    pub far: End,
}

impl Pair {
    /// A pair with this MTU in bytes and `queues` queues at each end. Needs root and iproute2.
    ///
    /// # Errors
    /// If the process may not create namespaces, or ip(8) fails.
    pub fn new(mtu: usize, queues: u32) -> io::Result<Self> {
        let [near, far] = [Namespace::new()?, Namespace::new()?].map(Arc::new);
        Self::between(near, far, mtu, queues)
    }

    /// As [`Pair::new`]. Returns `None` if the machine can't have one; the calling test is then skipped.
    ///
    /// # Panics
    /// If the machine can't have one, with `ROCE_LAB=require`; if ip(8) fails.
    pub fn new_or_skip(mtu: usize, queues: u32) -> Option<Self> {
        let [near, far] = namespaces_or_skip()?.map(Arc::new);
        Some(Self::between(near, far, mtu, queues).expect("a veth pair"))
    }

    /// As [`Pair::new_or_skip`], with both ends in one namespace: two interfaces of one host
    /// that a cable joins outside of the kernel's stack.
    ///
    /// # Panics
    /// As there.
    pub fn on_one_host_or_skip(mtu: usize, queues: u32) -> Option<Self> {
        let [host] = namespaces_or_skip()?.map(Arc::new);
        Some(Self::between(Arc::clone(&host), host, mtu, queues).expect("a veth pair"))
    }

    fn between(
        near: Arc<Namespace>,
        far: Arc<Namespace>,
        mtu: usize,
        queues: u32,
    ) -> io::Result<Self> {
        let pair = Self {
            near: End::new(near, "near", 1),
            far: End::new(far, "far", 2),
        };
        let [near, far] = [&pair.near, &pair.far].map(|end| {
            let (name, mac) = (end.interface, end.mac_text());
            format!("{name} address {mac} mtu {mtu} numtxqueues {queues} numrxqueues {queues}")
        });
        pair.near
            .ip(&format!("link add {near} type veth peer name {far}"))?;
        let there = pair.far.namespace.path();
        pair.near.ip(&format!("link set far netns {there}"))?;
        for end in [&pair.near, &pair.far] {
            end.configure()?;
        }
        for end in [&pair.near, &pair.far] {
            end.wait_until_up()?;
        }
        Ok(pair)
    }
}

impl End {
    /// Host number `host`, before its interface exists.
    pub fn new(namespace: Arc<Namespace>, interface: &'static str, host: u8) -> Self {
        Self {
            namespace,
            interface,
            mac: [2, 0, 0, 0, 0x91, host],
            ip4: Ipv4Addr::new(10, 91, 0, host),
            ip6: Ipv6Addr::new(0xfd91, 0, 0, 0, 0, 0, 0, host.into()),
            local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host.into()),
        }
    }

    /// Gives its interface the addresses, and sets it up.
    ///
    /// # Errors
    /// If ip(8) fails.
    pub fn configure(&self) -> io::Result<()> {
        let (interface, ip4) = (self.interface, self.ip4);
        self.ip("link set lo up")?;
        self.ip(&format!("link set {interface} addrgenmode none"))?;
        self.ip(&format!("address add {ip4}/24 dev {interface}"))?;
        // The kernel uses the second as the source of neighbour solicitations.
        for address in [self.ip6, self.local] {
            self.ip(&format!("address add {address}/64 dev {interface} nodad"))?;
        }
        self.ip(&format!("link set {interface} up"))
    }

    /// As [`Namespace::wait_until_up`], for its interface.
    ///
    /// # Errors
    /// As there.
    pub fn wait_until_up(&self) -> io::Result<()> {
        self.namespace.wait_until_up(self.interface)
    }

    /// As [`Namespace::ip`].
    ///
    /// # Errors
    /// As there.
    pub fn ip(&self, arguments: &str) -> io::Result<()> {
        self.namespace.ip(arguments)
    }

    /// As [`Namespace::run`].
    ///
    /// # Panics
    /// If the command fails.
    pub fn run(&self, line: &str) -> String {
        let result = self.namespace.run(line);
        result.unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Namespace::command`].
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// As [`Namespace::enter`].
    ///
    /// # Panics
    /// As there.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.enter(work)
    }

    /// The index of its interface.
    ///
    /// # Panics
    /// If the interface does not exist.
    pub fn index(&self) -> u32 {
        let shown = self.run(&format!("ip -o link show {}", self.interface));
        let index = shown.split(':').next().and_then(|text| text.parse().ok());
        index.unwrap_or_else(|| panic!("no index: {shown}"))
    }

    /// Its address of one family.
    pub fn address(&self, ipv6: bool) -> IpAddr {
        if ipv6 {
            self.ip6.into()
        } else {
            self.ip4.into()
        }
    }

    /// Its MAC address, as ip(8) reads it.
    pub fn mac_text(&self) -> String {
        self.mac.map(|byte| format!("{byte:02x}")).join(":")
    }
}

//! Two network namespaces, or one, and a cable between two interfaces: a veth pair.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::lab::LabError;
use crate::lab::namespace::Namespace;
use crate::lab::shared::excuse;

/// Timeout for a link to come up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One end of the cable, in a namespace of its own unless both are on one host.
#[derive(Debug)]
pub struct End {
    namespace: Arc<Namespace>,
    /// The interface.
    pub interface: &'static str,
    /// Its IPv4 address, with a prefix of 24 bits.
    pub ip4: Ipv4Addr,
    /// Its IPv6 address, with a prefix of 64 bits.
    pub ip6: Ipv6Addr,
}

/// A cable between `near` and `far`. It disappears with the last process in its namespaces.
#[derive(Debug)]
pub struct Pair {
    /// One end.
    pub near: End,
    /// The other.
    pub far: End,
}

impl Pair {
    /// A pair with this MTU in bytes and `queues` queues at each end. `None`, after a line on
    /// stderr with the reason, if the machine can't have one.
    ///
    /// # Panics
    /// If the machine can't have one and the environment variable `ROCE_LAB` is `require`.
    pub fn new_or_skip(mtu: u32, queues: u32) -> Option<Self> {
        Self::or_skip(|owner| {
            let (near, far) = (Namespace::create(owner)?, Namespace::create(owner)?);
            Self::between(near.into(), far.into(), mtu, queues)
        })
    }

    /// As [`Pair::new_or_skip`], with both ends in one namespace: two interfaces of one host
    /// that a cable joins outside of the kernel's stack.
    ///
    /// # Panics
    /// As there.
    pub fn on_one_host_or_skip(mtu: u32, queues: u32) -> Option<Self> {
        Self::or_skip(|owner| {
            let host = Arc::new(Namespace::create(owner)?);
            Self::between(Arc::clone(&host), host, mtu, queues)
        })
    }

    fn or_skip(new: impl FnOnce(&str) -> Result<Self, LabError>) -> Option<Self> {
        // The name of a lab of this process, by which its children are found.
        let owner = format!("{}.veth", std::process::id());
        excuse(|| new(&owner))
            .map_err(|reason| testkit::skip(testkit::NAMESPACES, &reason))
            .ok()
    }

    fn between(
        near: Arc<Namespace>,
        far: Arc<Namespace>,
        mtu: u32,
        queues: u32,
    ) -> Result<Self, LabError> {
        let pair = Self {
            near: End::new(near, "near", 1),
            far: End::new(far, "far", 2),
        };
        let size = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        pair.near.ip(&format!(
            "link add near {size} type veth peer name far {size}"
        ))?;
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
    pub(crate) fn new(namespace: Arc<Namespace>, interface: &'static str, host: u8) -> Self {
        Self {
            namespace,
            interface,
            ip4: Ipv4Addr::new(10, 91, 0, host),
            ip6: Ipv6Addr::new(0xfd91, 0, 0, 0, 0, 0, 0, host.into()),
        }
    }

    /// Gives its interface the addresses, and sets it up.
    ///
    /// # Errors
    /// If ip(8) fails.
    pub(crate) fn configure(&self) -> Result<(), LabError> {
        let Self {
            interface,
            ip4,
            ip6,
            ..
        } = self;
        self.ip("link set lo up")?;
        self.ip(&format!("link set {interface} addrgenmode none"))?;
        self.ip(&format!("address add {ip4}/24 dev {interface}"))?;
        self.ip(&format!("address add {ip6}/64 dev {interface} nodad"))?;
        let host = ip4.octets()[3];
        // The kernel uses it as the source of neighbour solicitations.
        self.ip(&format!(
            "address add fe80::{host}/64 dev {interface} nodad"
        ))?;
        self.ip(&format!("link set {interface} up"))
    }

    /// The kernel notices after a while that a link is up, and drops packets until then.
    ///
    /// # Errors
    /// If it does not come up.
    pub(crate) fn wait_until_up(&self) -> Result<(), LabError> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let shown = ["ip", "-o", "link", "show", self.interface];
            let shown = self.namespace.run(&shown, "")?;
            if shown.contains("state UP") && !shown.contains("qdisc noop ") {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(LabError::new(format!("no link after {TIMEOUT:?}: {shown}")));
            }
            std::thread::yield_now();
        }
    }

    /// Runs ip(8) inside; words are separated by spaces.
    ///
    /// # Errors
    /// If it fails.
    pub fn ip(&self, arguments: &str) -> Result<(), LabError> {
        let words: Vec<&str> = ["ip"].into_iter().chain(arguments.split(' ')).collect();
        self.namespace.run(&words, "").map(drop)
    }

    /// A command to run inside. The program is killed when the thread that spawns it ends.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Runs `work` on a new thread inside and returns its result.
    ///
    /// # Panics
    /// If `work` panics, with its payload.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace
            .enter(work)
            .expect("a namespace that was made can be entered")
    }

    /// Its address of one family.
    pub fn address(&self, ipv6: bool) -> IpAddr {
        if ipv6 {
            self.ip6.into()
        } else {
            self.ip4.into()
        }
    }
}

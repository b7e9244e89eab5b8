//! Two network namespaces joined by a veth pair, for tests that run as root.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use roce_udp::{UdpPort, UdpPortConfig};

use super::{open_with, skip};

pub(crate) const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 90, 0, 1));
pub(crate) const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 90, 0, 2));
pub(crate) const NEAR_LOCAL: &str = "fe80::1";
pub(crate) const FAR_LOCAL: &str = "fe80::2";
const NEAR_MAC: &str = "02:00:00:00:90:01";
const FAR_MAC: &str = "02:00:00:00:90:02";
const MTU: usize = 9000;

/// A network namespace. It is deleted when this value and all sockets in it are closed.
pub(crate) struct Namespace {
    handle: File,
}

impl Namespace {
    fn new() -> Self {
        let make = || {
            // SAFETY: the call takes no pointers; it moves only this thread.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            let handle = File::open("/proc/thread-self/ns/net").expect("procfs");
            Self { handle }
        };
        std::thread::spawn(make)
            .join()
            .expect("root may make namespaces")
    }

    /// Runs `work` in a thread in this namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let fd = self.handle.as_raw_fd();
        let enter = move || {
            // SAFETY: the descriptor is a namespace's and open; only this thread
            // moves.
            let result = unsafe { libc::setns(fd, libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().expect("the work succeeds"))
    }

    /// Runs a command in this namespace. Spaces separate its arguments.
    pub(crate) fn run(&self, line: &str) {
        self.output(line);
    }

    /// As [`Namespace::run`]. Returns what the command prints.
    pub(crate) fn output(&self, line: &str) -> String {
        self.inside(|| {
            let mut words = line.split_whitespace();
            let mut command = Command::new(words.next().expect("a command"));
            let output = command.args(words).output().expect("the command exists");
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {error}");
            String::from_utf8(output.stdout).expect("text")
        })
    }

    /// The index of an interface.
    pub(crate) fn index(&self, interface: &str) -> u32 {
        let line = self.link(interface);
        let index = line.split(':').next().expect("an index");
        index.parse().expect("a number")
    }

    /// Waits until an interface can send. For a short time after it comes up, the kernel drops
    /// packets.
    fn wait_for(&self, interface: &str) {
        let start = Instant::now();
        loop {
            let line = self.link(interface);
            if line.contains("state UP") && !line.contains("qdisc noop ") {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{line}");
        }
    }

    /// The output of `ip` about an interface, in one line.
    fn link(&self, interface: &str) -> String {
        let show = || {
            Command::new("ip")
                .args(["-o", "link"])
                .output()
                .expect("iproute2")
        };
        let table = String::from_utf8(self.inside(show).stdout).expect("text");
        let is_it = |line: &&str| line.contains(&format!(": {interface}@"));
        table
            .lines()
            .find(is_it)
            .expect("the interface is there")
            .to_owned()
    }
}

/// Interface `near` with [`NEAR`] in one namespace, `far` with [`FAR`] in another.
pub(crate) struct Pair {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
}

impl Pair {
    /// A pair of namespaces. Returns `None`, after a message on stderr, if this process may not
    /// create namespaces.
    pub(crate) fn new(test: &str) -> Option<Self> {
        // SAFETY: the call has no parameters and can't fail.
        if unsafe { libc::geteuid() } != 0 {
            skip(test, testkit::NAMESPACES);
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            skip(test, testkit::NAMESPACES);
            return None;
        }
        let (near, far) = (Namespace::new(), Namespace::new());
        near.run(&format!(
            "ip link add near mtu {MTU} address {NEAR_MAC} type veth \
             peer name far mtu {MTU} address {FAR_MAC}"
        ));
        // A name in /proc, so that nothing outlives the test in /run/netns.
        let far_fd = far.handle.as_raw_fd();
        near.run(&format!(
            "ip link set far netns /proc/{}/fd/{far_fd}",
            std::process::id()
        ));
        for (namespace, interface, address, local) in [
            (&near, "near", NEAR, NEAR_LOCAL),
            (&far, "far", FAR, FAR_LOCAL),
        ] {
            namespace.run("ip link set lo up");
            namespace.run(&format!("ip link set {interface} addrgenmode none"));
            namespace.run(&format!("ip address add {address}/24 dev {interface}"));
            namespace.run(&format!("ip address add {local}/64 dev {interface} nodad"));
            namespace.run(&format!("ip link set {interface} up"));
        }
        // Add the neighbours: later packets would overtake those that wait for an ARP reply.
        for (namespace, interface, mac, neighbours) in [
            (
                &near,
                "near",
                FAR_MAC,
                [FAR.to_string(), FAR_LOCAL.to_owned()],
            ),
            (
                &far,
                "far",
                NEAR_MAC,
                [NEAR.to_string(), NEAR_LOCAL.to_owned()],
            ),
        ] {
            for address in neighbours {
                namespace.run(&format!(
                    "ip neighbour replace {address} lladdr {mac} dev {interface} nud permanent"
                ));
            }
        }
        near.wait_for("near");
        far.wait_for("far");
        Some(Self { near, far })
    }

    pub(crate) fn near_config(&self) -> UdpPortConfig {
        let addresses = vec![NEAR, NEAR_LOCAL.parse().expect("an address")];
        UdpPortConfig::new("near", self.near.index("near"), MTU, addresses)
    }

    pub(crate) fn far_config(&self) -> UdpPortConfig {
        let addresses = vec![FAR, FAR_LOCAL.parse().expect("an address")];
        UdpPortConfig::new("far", self.far.index("far"), MTU, addresses)
    }

    /// Ports at both ends.
    pub(crate) fn ports(&self) -> (UdpPort, UdpPort) {
        let (near, far) = (self.near_config(), self.far_config());
        (
            self.near.inside(|| open_with(near)),
            self.far.inside(|| open_with(far)),
        )
    }
}

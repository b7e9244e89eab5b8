//! Network namespaces joined by veth pairs, for tests that run as root.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Output};

use super::{skip, wait_for};

/// A network namespace. It is deleted when this value and all sockets in it are closed.
pub(crate) struct Namespace {
    handle: File,
}

impl Namespace {
    /// A new namespace, with its loopback interface up.
    pub(crate) fn new() -> Self {
        let make = || {
            // SAFETY: the call takes no pointers; it moves only this thread.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            let handle = File::open("/proc/thread-self/ns/net").expect("procfs");
            Self { handle }
        };
        let new = std::thread::spawn(make)
            .join()
            .expect("root may make namespaces");
        new.run("ip link set lo up");
        new
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

    /// Runs a command in this namespace, and returns its output and exit status. Spaces separate
    /// the arguments.
    pub(crate) fn output(&self, line: &str) -> Output {
        self.inside(|| {
            let mut words = line.split_whitespace();
            let mut command = Command::new(words.next().expect("a command"));
            command.args(words).output().expect("the command exists")
        })
    }

    /// Runs a command in this namespace, and returns its output.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.output(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The index of an interface.
    pub(crate) fn index(&self, interface: &str) -> u32 {
        let line = self.link(interface);
        let index = line.split(':').next().expect("an index");
        index.parse().expect("a number")
    }

    /// The output of `ip` about an interface, in one line.
    fn link(&self, interface: &str) -> String {
        let table = self.run("ip -o link");
        let name = format!(": {interface}@");
        table
            .lines()
            .find(|line| line.contains(&name))
            .expect("the interface is there")
            .to_owned()
    }

    /// Waits until an interface can send. For a short time after it comes up, the kernel drops
    /// packets.
    pub(crate) fn wait_until_up(&self, interface: &str) {
        wait_for("the interface is up", || {
            let line = self.link(interface);
            (line.contains("state UP") && !line.contains("qdisc noop ")).then_some(())
        });
    }
}

/// Whether this process may create namespaces. If not, reports that on stderr.
pub(crate) fn can_create_namespaces(test: &str) -> bool {
    // SAFETY: the call has no parameters and can't fail.
    if unsafe { libc::geteuid() } != 0 {
        skip(test, "root");
        return false;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        skip(test, "iproute2");
        return false;
    }
    true
}

/// One end of a pair.
pub(crate) struct End {
    pub(crate) namespace: Namespace,
    pub(crate) interface: &'static str,
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) v4: [u8; 4],
    pub(crate) v6: [u8; 16],
}

/// Interface `near` in one namespace, `far` in another, with an IPv4 and an IPv6 address each.
pub(crate) struct Pair {
    pub(crate) near: End,
    pub(crate) far: End,
}

impl Pair {
    /// A pair with this MTU and number of queues in each direction. Returns `None`, after a message
    /// on stderr, if this process may not create one.
    pub(crate) fn new(test: &str, mtu: usize, queues: u32) -> Option<Self> {
        if !can_create_namespaces(test) {
            return None;
        }
        let (near, far) = (Namespace::new(), Namespace::new());
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        near.run(&format!(
            "ip link add near mtu {mtu} address 02:00:00:00:91:01 {queues} type veth \
             peer name far mtu {mtu} address 02:00:00:00:91:02 {queues}"
        ));
        // A name in /proc, so that nothing outlives the test in /run/netns.
        let far_fd = far.handle.as_raw_fd();
        near.run(&format!(
            "ip link set far netns /proc/{}/fd/{far_fd}",
            std::process::id()
        ));
        for (namespace, interface, host) in [(&near, "near", 1), (&far, "far", 2)] {
            namespace.run(&format!("ip link set {interface} addrgenmode none"));
            namespace.run(&format!("ip address add 10.91.0.{host}/24 dev {interface}"));
            namespace.run(&format!(
                "ip address add fd91::{host}/64 dev {interface} nodad"
            ));
            // The kernel sends its neighbour requests from this address.
            namespace.run(&format!(
                "ip address add fe80::{host}/64 dev {interface} nodad"
            ));
            namespace.run(&format!("ip link set {interface} up"));
        }
        near.wait_until_up("near");
        far.wait_until_up("far");
        Some(Self {
            near: end(near, "near", 1),
            far: end(far, "far", 2),
        })
    }
}

fn end(namespace: Namespace, interface: &'static str, host: u8) -> End {
    let mut v6 = [0; 16];
    [v6[0], v6[1], v6[15]] = [0xfd, 0x91, host];
    End {
        index: namespace.index(interface),
        namespace,
        interface,
        mac: [2, 0, 0, 0, 0x91, host],
        v4: [10, 91, 0, host],
        v6,
    }
}

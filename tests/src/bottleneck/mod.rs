//! Two senders and a receiver at a switch whose port to the receiver is slow.
//!
//! ```text
//!   near  10.94.0.1 ──┐            token bucket filter,
//!                     ├── bridge ── marks, drops ────────── far 10.94.0.3
//!   other 10.94.0.2 ──┘
//! ```

mod marker;

pub use marker::{Marker, Marking};

use std::io;
use std::process::Command;
use testkit::{Namespace, namespaces_or_skip};

/// The properties of the slow port.
#[derive(Clone, Copy, Debug)]
pub struct SlowPort {
    /// Bits per second.
    pub rate: u64,
    /// Size of the queue, in bytes. Packets beyond it are dropped.
    pub queue: u32,
    /// Link MTU of all hosts, in bytes.
    pub mtu: u32,
    /// When it marks; `None` for never.
    pub marks: Option<Red>,
}

/// Random early detection: marks with a probability that grows with the queue.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    /// Queue length, in bytes, up to which no packet is marked.
    pub kmin: u32,
    /// Queue length, in bytes, from which on every packet is marked.
    pub kmax: u32,
    /// Probability just below `kmax`, in percent.
    pub pmax: u8,
}

impl Red {
    /// Marks every packet above a queue of `bytes` bytes, and none below.
    pub const fn above(bytes: u32) -> Self {
        Self {
            kmin: bytes,
            kmax: bytes,
            pmax: 100,
        }
    }
}

/// Three hosts and the switch. They disappear with the last process in their namespaces.
#[derive(Debug)]
pub struct Bottleneck {
    switch: Namespace,
    hosts: [Namespace; 3],
    marker: Option<Marker>,
}

/// The three hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// One of the senders.
    Near,
    /// The other sender.
    Other,
    /// The receiver, behind the slow port.
    Far,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Near, Self::Other, Self::Far];

    /// Its address.
    pub fn address(self) -> &'static str {
        ["10.94.0.1", "10.94.0.2", "10.94.0.3"][self as usize]
    }
}

impl Bottleneck {
    /// Creates one. `None`, after a line on stderr with the reason, if the machine can't have one.
    ///
    /// # Panics
    /// If the machine can't have one and the environment variable `ROCE_LAB` is `require`.
    pub fn new_or_skip(port: &SlowPort) -> Option<Self> {
        let [switch, near, other, far] = namespaces_or_skip()?;
        let mut bottleneck = Self {
            switch,
            hosts: [near, other, far],
            marker: None,
        };
        bottleneck.connect(port).expect("a slow port");
        Some(bottleneck)
    }

    fn connect(&mut self, port: &SlowPort) -> io::Result<()> {
        let switch = &self.switch;
        switch.ip("link add bridge0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0")?;
        switch.ip("link set bridge0 up")?;
        for host in Host::ALL {
            self.plug_in(host, port.mtu)?;
        }
        self.slow_down(port)?;
        for host in &self.hosts {
            host.wait_until_up("wire")?;
        }
        let marking = port.marks.map(|red| {
            let nanoseconds = |bytes: u32| u64::from(bytes) * 8_000_000_000 / port.rate;
            Marking {
                // A queue that is slightly slower than the real one grows, and so marks, first: the
                // clock of the real one is coarse.
                rate: port.rate / 100 * 98,
                none_up_to: nanoseconds(red.kmin) as u32,
                all_from: nanoseconds(red.kmax) as u32,
                percent: red.pmax,
                longest: nanoseconds(port.queue) as u32,
            }
        });
        if let Some(marking) = marking {
            let marker = switch.enter(|| Marker::attach("port2", &marking));
            self.marker = Some(marker?);
        }
        Ok(())
    }

    fn plug_in(&self, host: Host, mtu: u32) -> io::Result<()> {
        let (n, namespace) = (host as usize, &self.hosts[host as usize]);
        // Packets are segmented before the switch, as on a real wire.
        namespace.ip(&format!(
            "link add wire mtu {mtu} gso_max_segs 1 type veth peer name port{n} mtu {mtu}"
        ))?;
        let there = self.switch.path();
        namespace.ip(&format!("link set port{n} netns {there}"))?;
        self.switch
            .ip(&format!("link set port{n} master bridge0 up"))?;
        namespace.ip("link set lo up")?;
        namespace.ip("link set wire addrgenmode none")?;
        namespace.ip(&format!("address add {}/24 dev wire", host.address()))?;
        namespace.ip("link set wire up")
    }

    fn slow_down(&self, port: &SlowPort) -> io::Result<()> {
        let SlowPort {
            rate, queue, mtu, ..
        } = port;
        // A bucket of a few packets is enough for the rate and prevents bursts.
        let burst = 5 * mtu;
        let command =
            format!("tc qdisc add dev port2 root tbf rate {rate}bit burst {burst} limit {queue}");
        self.switch.run(&command).map(drop)
    }

    /// A command to run at a host. The program is killed when the thread that spawns it ends.
    pub fn command(&self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.hosts[host as usize].command(program)
    }

    /// A command to run at the switch, whose `port2` all packets to the receiver pass.
    pub fn at_the_switch(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.switch.command(program)
    }

    /// The number of packets that the slow port has dropped.
    ///
    /// # Panics
    /// If tc fails or does not report it.
    pub fn dropped(&self) -> u64 {
        let said = self.switch.run("tc -s qdisc show dev port2").expect("tc");
        let number = said
            .split_once("dropped ")
            .and_then(|(_, rest)| rest.split_once(','))
            .and_then(|(number, _)| number.parse().ok());
        number.unwrap_or_else(|| panic!("no number of drops: {said}"))
    }

    /// The number of marked packets.
    ///
    /// # Panics
    /// If the kernel does not report it.
    pub fn marked(&self) -> u64 {
        let marker = self.marker.as_ref();
        marker.map_or(0, |marker| marker.marked().expect("a map that can be read"))
    }
}

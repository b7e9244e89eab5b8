//! Two network namespaces with a veth pair between them, or one with loopback alone.

use crate::output::output;
use std::io;
use std::process::{Command, Stdio};
use testkit::Namespace;

/// Two hosts on one machine, or two addresses of one host. They are removed when this value is dropped.
#[derive(Debug)]
pub struct VethPair {
    near: Namespace,
    /// `None` if both ends are on one host.
    far: Option<Namespace>,
    /// Whether packets between processes of one host take lanes.
    lanes: Lanes,
}

/// Whether packets between processes of one host take lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// They do.
    On,
    /// They take sockets.
    Off,
}

impl Lanes {
    /// The value of `ROCE_LOCAL`.
    pub fn setting(self) -> &'static str {
        match self {
            Self::On => "auto",
            Self::Off => "off",
        }
    }
}

/// The address of each end.
pub const ADDRESSES: [&str; 2] = ["10.79.0.1", "10.79.0.2"];

/// The MAC address of each end.
const MACS: [&str; 2] = ["02:00:00:00:79:01", "02:00:00:00:79:02"];

impl VethPair {
    /// Makes the namespaces, with this MTU. Needs root and iproute2.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn new(mtu: usize) -> Result<Self, String> {
        Self::connect(mtu).map_err(|e| format!("a veth pair: {e}"))
    }

    fn connect(mtu: usize) -> io::Result<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let [mac, peer_mac] = MACS;
        near.ip(&format!(
            "link add veth0 address {mac} mtu {mtu} type veth \
             peer name veth0 address {peer_mac} mtu {mtu} netns {}",
            far.path()
        ))?;
        for (namespace, address) in [&near, &far].into_iter().zip(ADDRESSES) {
            namespace.ip(&format!("addr add {address}/24 dev veth0"))?;
            namespace.ip("link set lo up")?;
            namespace.ip("link set veth0 up")?;
        }
        near.wait_until_up("veth0")?;
        far.wait_until_up("veth0")?;
        Ok(Self {
            near,
            far: Some(far),
            lanes: Lanes::On,
        })
    }

    /// Makes one host, whose loopback interface has both addresses. Needs root and iproute2.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn on_one_host(lanes: Lanes) -> Result<Self, String> {
        let set_up = || {
            let near = Namespace::new()?;
            near.ip("link set lo up")?;
            for address in ADDRESSES {
                near.ip(&format!("addr add {address}/32 dev lo"))?;
            }
            Ok(Self {
                near,
                far: None,
                lanes,
            })
        };
        set_up().map_err(|e: io::Error| format!("a host with loopback: {e}"))
    }

    /// The device at the addresses.
    pub fn device(&self) -> &'static str {
        match self.far {
            Some(_) => "roce_veth0",
            None => "roce_lo",
        }
    }

    /// The bytes that loopback has carried, if both ends are on one host.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn loopback_bytes(&self) -> Result<u64, String> {
        let mut command = self.command(0, "cat");
        command.arg("/proc/net/dev");
        let text = output(command)?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("lo:"));
        let bytes = line.and_then(|counts| counts.split_whitespace().next()?.parse().ok());
        bytes.ok_or_else(|| format!("no bytes of lo in:\n{text}"))
    }

    /// The MAC address of the interface of host 0 or 1.
    pub fn mac(&self, host: usize) -> &'static str {
        MACS[host.min(1)]
    }

    /// The network namespace that is host 0 or 1.
    pub fn namespace(&self, host: usize) -> &Namespace {
        match &self.far {
            Some(far) if host > 0 => far,
            _ => &self.near,
        }
    }

    /// A command that runs on host 0 or 1.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = self.namespace(host).command(program);
        command.stdin(Stdio::null());
        command.env("ROCE_LOCAL", self.lanes.setting());
        command
    }
}

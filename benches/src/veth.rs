//! Two network namespaces with a veth pair between them.

use std::io;
use std::process::{Command, Stdio};
use testkit::Namespace;

/// Two hosts on one machine. They are removed when this value is dropped.
#[derive(Debug)]
pub struct VethPair([Namespace; 2]);

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
        let pair = Self([Namespace::new()?, Namespace::new()?]);
        let [near, far] = &pair.0;
        let [mac, peer_mac] = MACS;
        near.ip(&format!(
            "link add veth0 address {mac} mtu {mtu} type veth \
             peer name veth0 address {peer_mac} mtu {mtu} netns {}",
            far.path()
        ))?;
        for (namespace, address) in pair.0.iter().zip(ADDRESSES) {
            namespace.ip(&format!("addr add {address}/24 dev veth0"))?;
            namespace.ip("link set lo up")?;
            namespace.ip("link set veth0 up")?;
        }
        near.wait_until_up("veth0")?;
        far.wait_until_up("veth0")?;
        Ok(pair)
    }

    /// The MAC address of the interface of host 0 or 1.
    pub fn mac(&self, host: usize) -> &'static str {
        MACS[host.min(1)]
    }

    /// The network namespace that is host 0 or 1.
    pub fn namespace(&self, host: usize) -> &Namespace {
        &self.0[host.min(1)]
    }

    /// A command that runs on host 0 or 1.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = self.namespace(host).command(program);
        command.stdin(Stdio::null());
        command
    }
}

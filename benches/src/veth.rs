//! Two network namespaces with a veth pair between them.

use crate::output::output;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two hosts on one machine. They are removed when this value is dropped.
#[derive(Debug)]
pub struct VethPair {
    names: [String; 2],
}

/// The address of each end.
pub const ADDRESSES: [&str; 2] = ["10.79.0.1", "10.79.0.2"];

impl VethPair {
    /// Makes the namespaces, with this MTU. Needs root and iproute2.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn new(mtu: usize) -> Result<Self, String> {
        let names = ["a", "b"].map(|end| format!("rocebench-{}-{end}", std::process::id()));
        let pair = Self { names };
        for name in &pair.names {
            ip(&["netns", "add", name])?;
        }
        let [a, b] = &pair.names;
        let mtu = mtu.to_string();
        ip(&[
            "-n", a, "link", "add", "veth0", "mtu", &mtu, "type", "veth", "peer", "name", "veth0",
            "mtu", &mtu, "netns", b,
        ])?;
        for (name, address) in pair.names.iter().zip(ADDRESSES) {
            ip(&[
                "-n",
                name,
                "addr",
                "add",
                &format!("{address}/24"),
                "dev",
                "veth0",
            ])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", "veth0", "up"])?;
        }
        (0..2).try_for_each(|host| pair.wait_for_link(host))?;
        Ok(pair)
    }

    /// Waits until the link is up, which the kernel reports with a delay of up to a second.
    fn wait_for_link(&self, host: usize) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(5);
        while self.link(host)?["operstate"].as_str() != Some("UP") {
            if Instant::now() > end {
                return Err(format!("veth0 of host {host} has not come up in 5 seconds"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The MAC address of a host's interface.
    ///
    /// # Errors
    /// If `ip` does not report it.
    pub fn mac(&self, host: usize) -> Result<String, String> {
        let link = self.link(host)?;
        let mac = link["address"].as_str();
        Ok(mac.ok_or("ip gave no MAC address")?.to_owned())
    }

    /// The output of `ip` about a host's interface.
    fn link(&self, host: usize) -> Result<serde_json::Value, String> {
        let mut command = self.command(host, "ip");
        command.args(["-json", "link", "show", "veth0"]);
        let mut json: serde_json::Value =
            serde_json::from_str(&output(command)?).map_err(|e| format!("ip: {e}"))?;
        Ok(json[0].take())
    }

    /// The name of the network namespace that is host 0 or 1.
    pub fn namespace(&self, host: usize) -> &str {
        &self.names[host.min(1)]
    }

    /// A command that runs on host 0 or 1.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespace(host), program]);
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let done = Command::new("ip")
        .args(args)
        .output()
        .map_err(|e| format!("running ip: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("ip {}: {}", args.join(" "), said.trim()))
}

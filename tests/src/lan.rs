//! Three hosts at a switch: two that communicate, and a third that receives none of their packets
//! but can send any to them.
//!
//! ```text
//!   near  10.91.0.1 ──┐
//!   far   10.91.0.2 ──┼── bridge
//!   other 10.91.0.3 ──┘
//! ```

use std::io;
use std::sync::Arc;
use testkit::veth::End;
use testkit::{Namespace, namespaces_or_skip};

/// The hosts and the switch. They disappear with the last process in their namespaces.
#[derive(Debug)]
pub struct Lan {
    /// One of the two.
    pub near: End,
    /// The other.
    pub far: End,
    /// The third.
    pub other: End,
    switch: Namespace,
}

impl Lan {
    /// Makes one with this MTU in bytes. `None`, after a line on stderr with the reason, if the
    /// machine can't have one.
    ///
    /// # Panics
    /// If the machine can't have one and the environment variable `ROCE_LAB` is `require`.
    pub fn new_or_skip(mtu: u32) -> Option<Self> {
        let [near, far, other, switch] = namespaces_or_skip()?;
        let lan = Self {
            near: End::new(Arc::new(near), "near", 1),
            far: End::new(Arc::new(far), "far", 2),
            other: End::new(Arc::new(other), "other", 3),
            switch,
        };
        lan.connect(mtu).expect("three hosts at a switch");
        Some(lan)
    }

    fn connect(&self, mtu: u32) -> io::Result<()> {
        let switch = &self.switch;
        switch.ip("link add bridge0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0")?;
        switch.ip("link set bridge0 up")?;
        let there = switch.path();
        for end in [&self.near, &self.far, &self.other] {
            let name = end.interface;
            end.ip(&format!(
                "link add {name} mtu {mtu} type veth peer name port-{name} mtu {mtu}"
            ))?;
            end.ip(&format!("link set port-{name} netns {there}"))?;
            switch.ip(&format!("link set port-{name} master bridge0 up"))?;
            end.configure()?;
        }
        for end in [&self.near, &self.far, &self.other] {
            end.wait_until_up()?;
        }
        Ok(())
    }

    /// Unplugs the cable of `end` at the switch, or plugs it in again. The host does not lose its
    /// link; its packets, and those to it, are lost.
    ///
    /// # Panics
    /// If ip(8) fails.
    pub fn plug(&self, end: &End, plugged: bool) {
        let port = format!("port-{}", end.interface);
        let arguments = if plugged {
            format!("link set {port} master bridge0")
        } else {
            format!("link set {port} nomaster")
        };
        self.switch.ip(&arguments).expect("the port is there");
    }

    /// Runs `work` on a new thread at the switch, which all packets pass.
    ///
    /// # Panics
    /// If `work` panics, with its payload.
    pub fn enter_switch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.switch.enter(work)
    }
}

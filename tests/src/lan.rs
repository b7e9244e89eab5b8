//! Three hosts at a switch: two that communicate, and a third that receives none of their packets
//! but can send any to them.
//!
//! ```text
//!   near  10.91.0.1 ──┐
//!   far   10.91.0.2 ──┼── bridge
//!   other 10.91.0.3 ──┘
//! ```

use std::sync::Arc;

use crate::lab::LabError;
use crate::lab::namespace::Namespace;
use crate::lab::shared::excuse;
use crate::veth::End;

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
        excuse(|| Self::new(mtu))
            .map_err(|reason| testkit::skip(testkit::NAMESPACES, &reason))
            .ok()
    }

    fn new(mtu: u32) -> Result<Self, LabError> {
        // The name of a lab of this process, by which its children are found.
        let owner = format!("{}.lan", std::process::id());
        let host = |interface, number| {
            let namespace = Arc::new(Namespace::create(&owner)?);
            Ok::<_, LabError>(End::new(namespace, interface, number))
        };
        let lan = Self {
            near: host("near", 1)?,
            far: host("far", 2)?,
            other: host("other", 3)?,
            switch: Namespace::create(&owner)?,
        };
        lan.at_the_switch(
            "link add bridge0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        )?;
        lan.at_the_switch("link set bridge0 up")?;
        let there = lan.switch.path();
        for end in [&lan.near, &lan.far, &lan.other] {
            let name = end.interface;
            end.ip(&format!(
                "link add {name} mtu {mtu} type veth peer name port-{name} mtu {mtu}"
            ))?;
            end.ip(&format!("link set port-{name} netns {there}"))?;
            lan.at_the_switch(&format!("link set port-{name} master bridge0 up"))?;
            end.configure()?;
        }
        for end in [&lan.near, &lan.far, &lan.other] {
            end.wait_until_up()?;
        }
        Ok(lan)
    }

    fn at_the_switch(&self, arguments: &str) -> Result<(), LabError> {
        let words: Vec<&str> = ["ip"].into_iter().chain(arguments.split(' ')).collect();
        self.switch.run(&words, "").map(drop)
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
        self.at_the_switch(&arguments).expect("the port is there");
    }

    /// Runs `work` on a new thread at the switch, which all packets pass.
    ///
    /// # Panics
    /// If `work` panics, with its payload.
    pub fn enter_switch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.switch
            .enter(work)
            .expect("a namespace that was made can be entered")
    }
}

//! The usual shapes.

use super::{Link, Network, Switch};
use crate::fabric::{HostId, LinkSpec, NodeId, SwitchId, SwitchSpec};
use roce_faults::FaultSpec;

impl Network {
    /// Hosts h1, h2, … at the switch s1. Link `i` is that of host `i`.
    pub fn star(hosts: usize, link: LinkSpec, switch: SwitchSpec) -> Self {
        let mut network = Self::of_hosts(hosts);
        let middle = network.add_switch("s1".to_owned(), switch);
        network.connect_hosts(link, |_| middle);
        network
    }

    /// Hosts h1, h2, … at switches leaf1, leaf2, …, each of which is connected to each of the
    /// switches spine1, spine2, …. Link `i` is that of host `i`, and those of leaf1 follow.
    pub fn leaf_spine(
        (leaves, spines): (usize, usize),
        hosts_per_leaf: usize,
        link: LinkSpec,
        switch: SwitchSpec,
    ) -> Self {
        let mut network = Self::of_hosts(leaves * hosts_per_leaf);
        let mut add = |name: &str, count: usize| -> Vec<SwitchId> {
            let numbers = 1..=count;
            numbers
                .map(|number| network.add_switch(format!("{name}{number}"), switch))
                .collect()
        };
        let (leaves, spines) = (add("leaf", leaves), add("spine", spines));
        network.connect_hosts(link, |host| leaves[host / hosts_per_leaf]);
        for leaf in &leaves {
            for spine in &spines {
                network.connect((*leaf).into(), (*spine).into(), link);
            }
        }
        network
    }

    /// Hosts h1 and h2 at the switch s1, h3 to h5 at s2, and a link between the two switches, which
    /// is the last one. Link `i` is that of host `i`.
    pub fn parking_lot(link: LinkSpec, switch: SwitchSpec) -> Self {
        let mut network = Self::of_hosts(5);
        let switches = ["s1", "s2"].map(|name| network.add_switch(name.to_owned(), switch));
        network.connect_hosts(link, |host| switches[usize::from(host >= 2)]);
        network.connect(switches[0].into(), switches[1].into(), link);
        network
    }

    pub(super) fn of_hosts(hosts: usize) -> Self {
        Self {
            hosts: (1..=hosts).map(|number| format!("h{number}")).collect(),
            ..Self::default()
        }
    }

    pub(super) fn add_switch(&mut self, name: String, spec: SwitchSpec) -> SwitchId {
        self.switches.push(Switch { name, spec });
        SwitchId(self.switches.len() - 1)
    }

    pub(super) fn connect(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) {
        self.links.push(Link {
            ends: [a, b],
            spec,
            faults: FaultSpec::default(),
        });
    }

    fn connect_hosts(&mut self, link: LinkSpec, switch_of: impl Fn(usize) -> SwitchId) {
        for host in 0..self.hosts.len() {
            self.connect(HostId(host).into(), switch_of(host).into(), link);
        }
    }
}

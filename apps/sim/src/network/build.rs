//! A fabric from a description, and changes of it.

use super::{Change, HostChange, LinkChange, Network};
use crate::fabric::{Fabric, FabricBuilder, HostId, HostSpec};
use roce_faults::FaultSpec;

impl Network {
    /// Builds the fabric. All hosts are as `host` says, but each has a seed of its own, which
    /// follows from `seed`. The events are the caller's to apply.
    pub fn build(&self, seed: u64, host: HostSpec) -> Fabric {
        let mut builder = FabricBuilder::new();
        for switch in &self.switches {
            builder.switch(switch.spec);
        }
        for number in 0..self.hosts.len() {
            builder.host(HostSpec {
                seed: seed.wrapping_mul(1000).wrapping_add(number as u64),
                ..host
            });
        }
        let mut faulty = Vec::new();
        for link in &self.links {
            let cable = builder.cable(link.ends[0], link.ends[1], link.spec);
            if link.faults != FaultSpec::default() {
                faulty.push((cable, link.faults));
            }
        }
        let mut fabric = builder.build(seed);
        for (cable, faults) in faulty {
            fabric.set_faults(cable, faults);
        }
        fabric
    }

    /// Applies a change to a fabric that [`Network::build`] built. Returns what the caller must do,
    /// because it is about the programs of a host.
    #[must_use]
    pub fn apply(&self, fabric: &mut Fabric, change: &Change) -> Option<(HostId, HostChange)> {
        match *change {
            Change::Host(host, change) => return Some((host, change)),
            Change::Routes(switch, true) => fabric.restore_routes(switch),
            Change::Routes(switch, false) => fabric.forget_routes(switch),
            Change::Link(link, LinkChange::Down) => fabric.set_down(link, true),
            Change::Link(link, LinkChange::Up) => fabric.set_down(link, false),
            Change::Link(link, LinkChange::Rate(rate)) => fabric.set_rate(link, rate),
            Change::Link(link, LinkChange::Faults(faults)) => fabric.set_faults(link, faults),
            Change::Link(link, LinkChange::FaultsFrom(from, faults)) => {
                fabric.set_faults_from(link, from, faults);
            }
        }
        None
    }
}

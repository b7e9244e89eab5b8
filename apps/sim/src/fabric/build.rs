//! Building a fabric.

use super::host::Host;
use super::link::{Common, Egress};
use super::routes::{Routes, find_routes};
use super::switch::Switch;
use super::trace::Trace;
use super::{
    CableId, Counters, EgressId, Events, Fabric, HostId, HostSpec, LinkSpec, NodeId, Pool,
    SwitchId, SwitchSpec,
};
use crate::dice::Dice;
use roce_stack::Instant;

/// Hosts, switches and cables, before the simulation starts.
#[derive(Debug, Default)]
pub struct FabricBuilder {
    hosts: Vec<HostSpec>,
    switches: Vec<SwitchSpec>,
    cables: Vec<(NodeId, NodeId, LinkSpec)>,
}

impl FabricBuilder {
    /// An empty fabric.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host.
    pub fn host(&mut self, spec: HostSpec) -> HostId {
        self.hosts.push(spec);
        HostId(self.hosts.len() - 1)
    }

    /// Adds a switch.
    pub fn switch(&mut self, spec: SwitchSpec) -> SwitchId {
        self.switches.push(spec);
        SwitchId(self.switches.len() - 1)
    }

    /// Connects two nodes. A host sends only on its first cable.
    pub fn cable(&mut self, a: impl Into<NodeId>, b: impl Into<NodeId>, spec: LinkSpec) -> CableId {
        self.cables.push((a.into(), b.into(), spec));
        CableId(self.cables.len() - 1)
    }

    /// The link's parameters at one end: a host may have a smaller queue.
    fn link_spec_at(&self, from: NodeId, spec: LinkSpec) -> LinkSpec {
        let port_bytes = match from {
            NodeId::Host(HostId(number)) => self.hosts[number].port_bytes,
            NodeId::Switch(_) => None,
        };
        LinkSpec {
            queue_bytes: port_bytes.unwrap_or(spec.queue_bytes),
            ..spec
        }
    }

    /// Builds the fabric. All randomness comes from `seed`.
    pub fn build(&self, seed: u64) -> Fabric {
        let mut dice = Dice::new(seed);
        let mut egresses = Vec::new();
        for (a, b, spec) in &self.cables {
            for (from, to) in [(*a, *b), (*b, *a)] {
                let id = EgressId(egresses.len());
                let spec = self.link_spec_at(from, *spec);
                egresses.push(Egress::new(id, from, to, spec, dice.number()));
            }
        }
        let host = |(number, spec): (usize, &HostSpec)| {
            let node = NodeId::Host(HostId(number));
            let cable = egresses.iter().find(|egress| egress.from == node);
            let max = cable.map_or(0, |egress| egress.spec.max_packet_bytes);
            let mut host = Host::new(*spec, number, max);
            host.egress = cable.map(|egress| egress.id);
            host
        };
        let hosts: Vec<Host> = self.hosts.iter().enumerate().map(host).collect();
        let switches: Vec<Switch> = self
            .switches
            .iter()
            .map(|spec| Switch::new(*spec, dice.split()))
            .collect();
        let mut salts = Dice::new(!seed);
        let mut routes: Vec<Routes> = switches
            .iter()
            .map(|_| Routes::new(salts.number()))
            .collect();
        find_routes(&egresses, &mut routes, hosts.len());
        Fabric {
            common: Common {
                now: Instant::ZERO,
                pool: Pool::default(),
                events: Events::new(egresses.len()),
                counters: Counters::default(),
                trace: Trace::new(),
            },
            hosts,
            switches,
            routes,
            egresses,
        }
    }
}

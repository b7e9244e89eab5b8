//! Changes of cables and switches while the fabric runs.

use super::routes::find_routes;
use super::{CableId, Fabric, NodeId, SwitchId};
use roce_faults::FaultSpec;

impl Fabric {
    /// Changes the faults of a cable, in both directions.
    pub fn set_faults(&mut self, cable: CableId, spec: FaultSpec) {
        for egress in &mut self.egresses[2 * cable.0..][..2] {
            egress.faults.change(spec);
        }
    }

    /// Changes the faults of the direction of a cable on which `from` sends. Returns false if the
    /// cable is not connected to `from`.
    pub fn set_faults_from(
        &mut self,
        cable: CableId,
        from: impl Into<NodeId>,
        spec: FaultSpec,
    ) -> bool {
        let from = from.into();
        let mut ends = self.egresses[2 * cable.0..][..2].iter_mut();
        let egress = ends.find(|egress| egress.from == from);
        egress.is_some_and(|egress| {
            egress.faults.change(spec);
            true
        })
    }

    /// Changes the rate of a cable, in both directions. A packet that is being sent keeps the old
    /// rate. A rate of 0 counts as 1.
    pub fn set_rate(&mut self, cable: CableId, bits_per_sec: u64) {
        for egress in &mut self.egresses[2 * cable.0..][..2] {
            egress.spec.bits_per_sec = bits_per_sec;
        }
    }

    /// Cuts a cable, or reconnects it. Packets in flight still arrive. Switches use other shortest
    /// paths at once, if there are any, as if a routing protocol had converged.
    pub fn set_down(&mut self, cable: CableId, down: bool) {
        for egress in &mut self.egresses[2 * cable.0..][..2] {
            egress.down = down;
        }
        find_routes(&self.egresses, &mut self.routes, self.hosts.len());
    }

    /// A switch forgets its routes: it drops every packet, and other switches do not notice.
    pub fn forget_routes(&mut self, switch: SwitchId) {
        self.routes[switch.0].forgotten = true;
    }

    /// A switch has its routes again.
    pub fn restore_routes(&mut self, switch: SwitchId) {
        self.routes[switch.0].forgotten = false;
    }
}

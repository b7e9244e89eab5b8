//! What is seen of the network while programs run.

use roce_fabric::Observer;
use roce_sim::fabric::Fabric;
use roce_sim::network::Network;
use std::fmt::Write as _;
use std::time::Duration;

/// Watches the ports.
#[derive(Debug)]
pub(super) struct Watching {
    network: Network,
}

impl Watching {
    pub(super) fn new(network: Network, _fabric: &mut Fabric) -> Self {
        Self { network }
    }
}

impl Observer for Watching {
    fn every(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn step(&mut self, _fabric: &mut Fabric) {}

    fn changed(&mut self, fabric: &Fabric, what: &str) {
        let at = fabric.now().as_nanos() as f64 / 1e9;
        super::report(format_args!("{at:.3} s: {what}"));
    }

    fn state(&mut self, fabric: &mut Fabric) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} hosts, {:?}",
            self.network.hosts.len(),
            fabric.counters()
        );
        text
    }
}

//! Observation of an open device: explanations of failures, counts, snapshots.

use super::Context;
use crate::datapath::{Datapath, Layers};
use crate::device::Device;
use crate::runtime::{DeviceState, Engine, Observed, Observer, Tally};
use crate::settings::OpenOptions;
use roce_cm::Pending;
use roce_observe::tally::{self, DeviceCount};
pub(crate) use roce_observe::watch::{ShownWaits, show_wait_for_program};
use roce_observe::watch::{WatchHandle, register, show_waits, waits_of_connections};
use roce_observe::why::{Evidence, Explainer, Explanation, FailedConnection, GatheredEvidence};
use roce_observe::{DeviceNames, DeviceView, WatchedDevice};
use roce_stack::{Counters, Failure, Mismatch};
use roce_wire::Qpn;
use std::net::SocketAddr;
use std::sync::Arc;

/// The observation of an open device.
pub(crate) struct Observing {
    evidence: Evidence,
    /// Shows the device to programs that watch the process.
    handle: Option<WatchHandle>,
}

impl Observing {
    /// Watches a device that is being opened. Returns the layers and the engine, with the observation attached.
    pub(super) fn begin(
        device: &Device,
        options: &OpenOptions,
        mut layers: Layers,
        mut engine: Engine,
    ) -> (Self, Layers, Engine) {
        let (tap, explainer) = options.observing.begin(names(device));
        let evidence = explainer.evidence().clone();
        layers.tap = tap;
        engine.observer = Some(Box::new(explainer));
        engine.tally = tally::open().map(|tally| tally as Box<dyn Tally>);
        let handle = None;
        (Self { evidence, handle }, layers, engine)
    }

    /// Shows the device to programs that watch the process.
    pub(super) fn show(
        &mut self,
        shared: &Arc<DeviceState>,
        device: &Device,
        options: &OpenOptions,
    ) {
        let shared = Arc::clone(shared);
        self.handle = register(names(device), shared, options.observing.metrics);
    }
}

fn names(device: &Device) -> DeviceNames {
    DeviceNames {
        device: device.name(),
        interface: device.interface().name.clone(),
    }
}

impl WatchedDevice for DeviceState {
    fn datapath(&self) -> Option<&'static str> {
        self.starter.datapath().map(Datapath::name)
    }

    fn failure(&self) -> Option<String> {
        self.lock().failure_text()
    }

    fn look(&self, look: &mut dyn FnMut(&DeviceView<'_>)) {
        let mut engine = self.lock();
        look(&DeviceView {
            now: engine.nic_time(self.now()),
            nic: &engine.nic,
            port: &*engine.port,
        });
    }
}

impl Observer for Explainer {
    fn on_start(&self) {
        self.start();
    }

    #[cold]
    fn on_failures(
        &mut self,
        &Observed { now, nic, port }: &Observed<'_>,
        failed: Vec<Failure>,
        unfit: Vec<Mismatch>,
    ) {
        self.explain(&DeviceView { now, nic, port }, failed, unfit);
    }
}

impl Tally for DeviceCount {
    fn on_turn(&mut self, counters: &Counters, lane_packets: u64) {
        self.note(counters, lane_packets);
    }

    fn on_ready_qp(&self, has_one_peer: bool) {
        self.note_qp(has_one_peer);
    }
}

impl Context {
    /// Why a QP failed, as a completion that is not a success or an asynchronous event reports.
    /// `None` if it has not failed, or no longer exists.
    pub fn why(&self, qpn: Qpn) -> Option<Explanation> {
        let (device, evidence) = (&*self.inner.shared, &self.inner.observing.evidence);
        Explanation::of_qp(&self.device().name(), device, evidence, qpn)
    }

    /// Adds to the explanation of a connection whose peer is silent what shows why packets get lost:
    /// the interface, the route, the peer's hardware address, and counters. Sends nothing.
    pub fn add_evidence(&self, failed: &mut FailedConnection) {
        failed.add_evidence(&mut self.gather_evidence());
    }

    /// The evidence of why management datagrams get lost.
    fn gather_evidence(&self) -> GatheredEvidence {
        GatheredEvidence::new(&self.inner.observing.evidence, self.port_counters())
    }

    /// Shows to watchers, until the value is dropped, what the connections wait for that `pending` returns.
    pub(crate) fn show_waits(
        &self,
        pending: impl Fn() -> Vec<Pending> + Send + Sync + 'static,
    ) -> ShownWaits {
        let context = self.clone();
        show_waits(move || waits_of_connections(&pending(), context.gather_evidence()))
    }

    /// The address at which this process serves its metrics, if the program requested metrics
    /// ([`OpenOptions::metrics`](crate::settings::OpenOptions::metrics)) and the address was free.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.observing.handle.as_ref()?.metrics()
    }
}

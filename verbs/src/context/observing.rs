//! Observation of an open device: explanations of failures, counts, snapshots.

use super::Context;
use crate::datapath::Layers;
use crate::device::Device;
use crate::runtime::{DeviceState, Engine, Observed, Observer, Tally};
use crate::settings::OpenOptions;
use crate::watch::{self, WatchHandle};
use crate::why::{
    Cause, Explanation, FailedConnection, Failure, GatheredEvidence, KernelSince, KernelView,
    KernelWatch, LossSigns, Places, UnfitPackets, WhyLog, is_of_lost_packets,
};
use roce_observe::DeviceNames;
use roce_observe::tally::{self, DeviceCount};
use roce_port::Port;
use roce_stack::{Counters, Mismatch, Nic};
use roce_wire::Qpn;
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;

/// The observation of an open device.
pub(crate) struct Observing {
    /// The kernel's counters since the datapath started.
    pub(crate) kernel: KernelSince,
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
        let kernel = KernelSince::default();
        let names = names(device);
        let (tap, log) = options.tap_and_log(&names);
        layers.tap = tap;
        engine.observer = Some(Box::new(Explainer {
            names,
            log,
            kernel: Arc::clone(&kernel),
        }));
        engine.tally = tally::open().map(|tally| tally as Box<dyn Tally>);
        let handle = None;
        (Self { kernel, handle }, layers, engine)
    }

    /// Shows the device to programs that watch the process.
    pub(super) fn show(
        &mut self,
        shared: &Arc<DeviceState>,
        device: &Device,
        options: &OpenOptions,
    ) {
        self.handle = watch::register(device, shared, options.observing.metrics);
    }
}

fn names(device: &Device) -> DeviceNames {
    DeviceNames {
        device: device.name(),
        interface: device.interface().name.clone(),
    }
}

/// Writes why QPs fail.
struct Explainer {
    names: DeviceNames,
    log: Option<WhyLog>,
    kernel: KernelSince,
}

impl Observer for Explainer {
    fn on_start(&self) {
        if let Some(watch) = KernelWatch::begin(&self.names.interface) {
            let _ = self.kernel.set(watch);
        }
    }

    #[cold]
    fn on_failures(&mut self, seen: &Observed<'_>, failed: Vec<Failure>, unfit: Vec<Mismatch>) {
        let Some(log) = &mut self.log else { return };
        // One view for all of them: no packet moves while it is made.
        let view = OnceCell::new();
        for failure in failed {
            if log.admits(&failure) {
                let kernel = self.kernel.get().filter(|_| is_of_lost_packets(&failure));
                let view = kernel.and_then(|kernel| view.get_or_init(|| kernel.look()).as_ref());
                log.write(explain(
                    &self.names.device,
                    seen.nic,
                    seen.port,
                    failure,
                    view,
                ));
            }
        }
        for mismatch in unfit {
            // The failure of the QP explains them.
            let failure = seen.nic.failure(mismatch.qpn);
            let is_explained = failure.is_some_and(|failure| failure.cause != Cause::Application);
            if !is_explained && log.has_room(seen.now) {
                let status = seen.nic.qp_status(seen.now, mismatch.qpn);
                let kind = status.map(|status| status.kind);
                log.write_unfit(&UnfitPackets::new(&self.names.device, kind, &mismatch));
            }
        }
    }
}

/// Explains a failure. `kernel` is what the kernel shows, if packets got lost
/// ([`is_of_lost_packets`]).
#[cold]
fn explain(
    device: &str,
    nic: &Nic,
    port: &dyn Port,
    failure: Failure,
    kernel: Option<&KernelView<'_>>,
) -> Explanation {
    let places = Places {
        nic,
        port_counters: &port.each_counter(),
        kernel,
    };
    Explanation::new(device, failure, &places)
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
        let engine = self.inner.shared.lock();
        let failure = *engine.nic.failure(qpn)?;
        drop(engine);
        // No packet would move meanwhile if the engine were locked.
        let kernel = self.inner.observing.kernel.get();
        let kernel = kernel.filter(|_| is_of_lost_packets(&failure));
        let view = kernel.and_then(KernelWatch::look);
        let engine = self.inner.shared.lock();
        engine.nic.failure(qpn)?;
        Some(explain(
            &self.device().name(),
            &engine.nic,
            &*engine.port,
            failure,
            view.as_ref(),
        ))
    }

    /// Adds to the explanation of a connection whose peer is silent what shows why packets get lost:
    /// the interface, the route, the peer's hardware address, and counters. Sends nothing.
    pub fn add_evidence(&self, failed: &mut FailedConnection) {
        let signs = LossSigns {
            port_counters: self.port_counters(),
            kernel: Arc::clone(&self.inner.observing.kernel),
        };
        failed.add_evidence(&mut GatheredEvidence::new(signs));
    }

    /// The address at which this process serves its metrics, if the program requested metrics
    /// ([`OpenOptions::metrics`](crate::settings::OpenOptions::metrics)) and the address was free.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.observing.handle.as_ref()?.metrics()
    }
}

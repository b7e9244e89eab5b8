//! What an open device does now, and has done.

use super::Context;
use crate::datapath::XdpQueue;
use crate::settings::PrioritySettings;
use roce_port::PortError;
use roce_port::fault::{FaultLayer, FaultSpec};
use roce_stack::{CongestionSettings, Counters};
use std::net::SocketAddr;

impl Context {
    /// What the NIC has counted so far.
    pub fn counters(&self) -> Counters {
        self.inner.shared.lock().nic.counters().clone()
    }

    /// What the port has counted so far, by name; with faults, what they did, too.
    pub fn port_counters(&self) -> Vec<(&'static str, u64)> {
        self.inner.shared.lock().each_port_counter()
    }

    /// Where this process's metrics are to be had, if that was asked for
    /// ([`OpenOptions::metrics`](crate::settings::OpenOptions::metrics)) and the address was free.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.watched.as_ref()?.metrics()
    }

    /// The queues that AF_XDP uses, each with what it has counted so far; none with UDP
    /// sockets.
    pub fn xdp_queues(&self) -> Vec<XdpQueue> {
        self.inner.shared.lock().port.xdp_queues()
    }

    /// The faults that packets suffer here, if there are any, with their seed.
    pub fn faults(&self) -> Option<FaultSpec> {
        let engine = self.inner.shared.lock();
        engine.faults.as_ref().map(FaultLayer::spec)
    }

    /// The port's failure, if it failed for good (its interface went away).
    pub fn failure(&self) -> Option<String> {
        self.inner
            .shared
            .lock()
            .failure
            .as_ref()
            .map(PortError::to_string)
    }

    /// Sets how the device controls congestion from now on. If the algorithm stays the same,
    /// QPs keep the rates that they have.
    pub fn set_congestion(&self, settings: &CongestionSettings) {
        self.inner.shared.lock().nic.set_congestion(settings);
    }

    /// How the device controls congestion.
    pub fn congestion(&self) -> CongestionSettings {
        self.inner.shared.lock().nic.congestion()
    }

    /// Which traffic classes and priorities packets get.
    pub fn priorities(&self) -> &PrioritySettings {
        &self.inner.priorities
    }

    /// The device's clock: nanoseconds of the machine's monotonic clock
    /// (`CLOCK_MONOTONIC`), in every context of every device. Completions tell it, too:
    /// [`CompletionQueue::poll_timed`](crate::CompletionQueue::poll_timed). It never goes back, and
    /// what completes after a look at it is not stamped before. Between two looks at the
    /// machine's clock, a tenth of a millisecond, a counter of the processor tells the time: by
    /// tens of nanoseconds off, or microseconds while the machine's clock is being set.
    pub fn clock_ns(&self) -> u64 {
        let shared = &self.inner.shared;
        let now = shared.now();
        let at = shared.lock().at(now);
        shared.clock.ns(at)
    }
}

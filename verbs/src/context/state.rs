//! The state and the counters of an open device.

use super::Context;
use crate::datapath::XdpQueue;
use crate::settings::PrioritySettings;
use roce_stack::{CongestionSettings, Counters};
use std::io;

impl Context {
    /// The NIC's counters.
    pub fn counters(&self) -> Counters {
        self.inner.shared.lock().nic.counters().clone()
    }

    /// The port's counters, by name, and those of faults, if there are any.
    pub fn port_counters(&self) -> Vec<(&'static str, u64)> {
        self.inner.shared.lock().port.each_counter()
    }

    /// The queues that AF_XDP uses, each with its counters; none with UDP sockets.
    pub fn xdp_queues(&self) -> Vec<XdpQueue> {
        self.inner.shared.lock().port.each_queue()
    }

    /// Whether the faults that were injected have taken the link down.
    pub fn is_cut_off(&self) -> bool {
        let injector = self.inner.injector.as_ref();
        injector.is_some_and(|injector| injector.is_cut_off())
    }

    /// The error for which the device works no longer: the port's, for instance because its interface
    /// disappeared, or a panic after which the device stopped
    /// ([`Event::DeviceFatal`](crate::device::Event::DeviceFatal)).
    pub fn failure(&self) -> Option<String> {
        self.inner.shared.lock().failure_text()
    }

    /// Sets the congestion control from now on. If the algorithm stays the same, QPs keep their
    /// rates.
    pub fn set_congestion(&self, settings: &CongestionSettings) {
        self.inner.shared.lock().nic.set_congestion(settings);
    }

    /// The congestion control of the device.
    pub fn congestion(&self) -> CongestionSettings {
        self.inner.shared.lock().nic.congestion()
    }

    /// The traffic classes and priorities of the device's packets.
    pub fn priorities(&self) -> &PrioritySettings {
        &self.inner.priorities
    }

    /// The device's clock: nanoseconds of the host's monotonic clock (`CLOCK_MONOTONIC`), the same
    /// in every context of every device.
    /// [`CompletionQueue::poll_timed`](crate::CompletionQueue::poll_timed) uses the same clock. The
    /// clock never goes back: a request that completes after a call of this function has no earlier
    /// timestamp than the call's result. The host's clock is read every tenth of a millisecond;
    /// between two reads, a counter of the processor gives the time. The error is tens of
    /// nanoseconds, or microseconds while the host's clock is being adjusted.
    pub fn clock_ns(&self) -> u64 {
        let shared = &self.inner.shared;
        let now = shared.now();
        let at = shared.lock().nic_time(now);
        shared.clock.host_ns(at)
    }

    /// The wall clock's time, in nanoseconds since 1970 and as it is set now, when the
    /// [device's clock](Self::clock_ns) was at `clock_ns`. While nobody sets the wall clock, a later time
    /// of the device's clock never has an earlier result.
    ///
    /// # Errors
    /// If the host lacks a wall clock.
    pub fn wall_clock_ns(&self, clock_ns: u64) -> io::Result<u64> {
        Ok(crate::runtime::wall_clock_ns(clock_ns)?)
    }
}

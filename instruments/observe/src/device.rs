//! An open device, as those see it that observe it.

use roce_port::Port;
use roce_stack::{Instant, Nic};

/// The two names of a device.
#[derive(Clone, Debug)]
pub struct DeviceNames {
    /// The device's own.
    pub device: String,
    /// The name of its network interface.
    pub interface: String,
}

/// A look at a locked device.
pub struct DeviceView<'a> {
    /// The time. Not earlier than the latest that the NIC has seen.
    pub now: Instant,
    /// The NIC.
    pub nic: &'a Nic,
    /// Its port.
    pub port: &'a dyn Port,
}

/// An open device that threads of the observation look at.
pub trait WatchedDevice: Send + Sync {
    /// The name of its datapath; `None` until it has started.
    fn datapath(&self) -> Option<&'static str>;

    /// Why the device does not work any more, if it does not.
    fn failure(&self) -> Option<String>;

    /// Locks the device and calls `look`. No packet moves meanwhile.
    fn look(&self, look: &mut dyn FnMut(&DeviceView<'_>));
}

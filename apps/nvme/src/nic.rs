//! An open device with a protection domain.

use roce_verbs::device::OpenError;
use roce_verbs::{Context, Device, ProtectionDomain};
use std::net::IpAddr;

/// An open device with a protection domain.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) context: Context,
    pub(crate) pd: ProtectionDomain,
}

impl Nic {
    /// The device that the system's routes choose for packets to `remote`.
    pub(crate) fn towards(remote: IpAddr) -> Result<Self, OpenError> {
        Device::towards(remote)?.open().map(Self::new)
    }

    pub(crate) fn new(context: Context) -> Self {
        let pd = context.alloc_pd();
        Self { context, pd }
    }
}

//! Writes what a device's port sends and receives to a capture file.
//!
//! The [`Tap`] is a layer around the port. It writes a packet that is sent when the NIC commits it,
//! and a packet that is received after the NIC has handled it, with the outcome.
//!
//! A port provides only the bytes from BTH to ICRC. The capture rebuilds the headers before the
//! BTH. The fields that the ICRC covers are as they were on the wire. RoCE v1 has no IP header, so
//! its packets have an interface of their own in the file. They begin with Linux's pseudo-header
//! (LINKTYPE_LINUX_SLL), which has their EtherType and no Ethernet addresses.

mod captured;
mod comments;
mod environment;
mod frame;
mod recent;
mod tap;
#[cfg(test)]
mod tests;

pub(crate) use environment::check_capture_setting;
pub use environment::environment_capture;
pub(crate) use recent::MOST_PACKETS;
pub use recent::RecentPackets;
pub use roce_capture::{Capture, CreateError};
pub use tap::Tap;

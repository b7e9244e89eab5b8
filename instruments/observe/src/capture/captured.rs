//! A captured packet, and the interfaces of its device.

use super::frame;
use crate::DeviceNames;
use roce_capture::{Direction, Interface, LinkType};
use roce_stack::RoceVersion;
use roce_wire::Qpn;
use std::time::SystemTime;

/// A packet, with what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Captured<'a> {
    /// The QP that has sent it, or that it is for.
    pub(super) qpn: Qpn,
    pub(super) version: RoceVersion,
    pub(super) time: SystemTime,
    pub(super) direction: Direction,
    /// From the IP header or RoCE v1's pseudo-header on.
    pub(super) bytes: &'a [u8],
    pub(super) comments: &'a [String],
}

/// The name of an interface, and what capture files say of it.
#[derive(Debug)]
pub(super) struct Names {
    interface: String,
    description: String,
    description_v1: String,
}

impl Names {
    pub(super) fn of(names: &DeviceNames) -> Self {
        let description = format!("RoCE device {}", names.device);
        Self {
            interface: names.interface.clone(),
            description_v1: format!("{description}, RoCE v1"),
            description,
        }
    }

    pub(super) fn interface(&self, version: RoceVersion) -> Interface<'_> {
        let (description, link_type) = match version {
            RoceVersion::V2 => (&self.description, LinkType::RawIp),
            RoceVersion::V1 => (
                &self.description_v1,
                LinkType::Other(frame::LINKTYPE_LINUX_SLL),
            ),
        };
        Interface {
            name: &self.interface,
            description,
            link_type,
        }
    }
}

//! A captured packet, and the interfaces of its device.

use super::frame;
use crate::device::Device;
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

/// The names of an interface and its device.
#[derive(Debug)]
pub(super) struct Names {
    interface: String,
    device: String,
}

impl Names {
    pub(super) fn of(device: &Device) -> Self {
        Self {
            interface: device.interface().name.clone(),
            device: device.name(),
        }
    }

    pub(super) fn description(&self) -> String {
        format!("RoCE device {}", self.device)
    }

    pub(super) fn description_v1(&self) -> String {
        format!("{}, RoCE v1", self.description())
    }

    /// The interface for packets of `version`.
    pub(super) fn interface<'a>(
        &'a self,
        version: RoceVersion,
        description: &'a str,
    ) -> Interface<'a> {
        Interface {
            name: &self.interface,
            description,
            link_type: match version {
                RoceVersion::V2 => LinkType::RawIp,
                RoceVersion::V1 => LinkType::Other(frame::LINKTYPE_LINUX_SLL),
            },
        }
    }
}

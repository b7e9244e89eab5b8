//! Where captured packets go: to a file, and to memory until a QP fails.

use super::captured::{Captured, Names};
use super::recent::Recent;
use crate::device::Device;
use roce_capture::{Capture, InterfaceId, Packet};
use roce_stack::RoceVersion;

/// A capture file, with the interfaces of one device.
#[derive(Debug)]
struct File {
    capture: Capture,
    interface: InterfaceId,
    /// The interface for RoCE v1, added with its first packet.
    interface_v1: Option<InterfaceId>,
}

/// Where the packets of a device go.
#[derive(Debug)]
pub(super) struct Sinks {
    pub(super) names: Names,
    file: Option<File>,
    pub(super) recent: Option<Recent>,
}

impl Sinks {
    /// To `capture`, and, if `keeps_recent`, to memory.
    pub(super) fn new(capture: Option<&Capture>, keeps_recent: bool, device: &Device) -> Self {
        let names = Names::of(device);
        let file = capture.map(|capture| File {
            interface: capture.add_interface(&names.interface(RoceVersion::V2)),
            capture: capture.clone(),
            interface_v1: None,
        });
        Self {
            names,
            file,
            recent: keeps_recent.then(Recent::default),
        }
    }

    pub(super) fn write(&mut self, packet: &Captured<'_>) {
        if let Some(recent) = &mut self.recent {
            recent.keep(packet);
        }
        let Some(file) = &mut self.file else {
            return;
        };
        let interface = match packet.version {
            RoceVersion::V2 => file.interface,
            RoceVersion::V1 => *file.interface_v1.get_or_insert_with(|| {
                let added = self.names.interface(RoceVersion::V1);
                file.capture.add_interface(&added)
            }),
        };
        file.capture.packet(&Packet {
            interface,
            time: packet.time,
            direction: packet.direction,
            bytes: packet.bytes,
            wire_len: packet.bytes.len(),
            comments: packet.comments,
        });
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> Option<&Capture> {
        self.file.as_ref().map(|file| &file.capture)
    }

    pub(super) fn flush(&self) {
        if let Some(file) = &self.file {
            file.capture.flush();
        }
    }
}

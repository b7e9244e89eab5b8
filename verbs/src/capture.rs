//! Writes what a context's port sends and receives to a capture file.
//!
//! ```text
//! nic.transmit ─► Tap ─► port            written when it is committed
//! port ─► faults ─► NIC                  written after the NIC has handled it, with the outcome
//! ```
//!
//! A port provides only the bytes from BTH to ICRC. The capture rebuilds the headers before the
//! BTH. The fields that the ICRC covers are as they were on the wire. RoCE v1 has no IP header, so
//! its packets have an interface of their own in the file. They begin with Linux's pseudo-header
//! (LINKTYPE_LINUX_SLL), which has their EtherType and no Ethernet addresses.

mod comments;
mod environment;
mod frame;
mod tap;
#[cfg(test)]
mod tests;

pub(crate) use environment::check_capture_setting;
pub use environment::environment_capture;

use crate::device::Device;
use comments::Comments;
use frame::Frame;
use roce_capture::{Capture, Direction, Interface, InterfaceId, LinkType, Packet};
use roce_port::fault::{Effects, Loss};
use roce_stack::{Instant, Nic, RoceVersion, RxMeta, Transmit};
use std::time::SystemTime;
use tap::{Reservation, Tap};

/// Captures the packets of one port.
#[derive(Debug)]
pub(crate) struct PortCapture {
    capture: Capture,
    name: String,
    description: String,
    interface: InterfaceId,
    /// The interface for RoCE v1, added with its first packet.
    interface_v1: Option<InterfaceId>,
    /// Reused for each packet.
    frame: Frame,
    comments: Comments,
    /// The buffer in which the next packet to send is built.
    tx_buffer: Vec<u8>,
    reservation: Option<Reservation>,
}

impl PortCapture {
    /// Starts to capture what `device`'s port sends and receives.
    pub(crate) fn new(capture: &Capture, device: &Device) -> Self {
        let name = device.interface().name.clone();
        let description = format!("RoCE device {}", device.name());
        let interface = capture.add_interface(&Interface {
            name: &name,
            description: &description,
            link_type: LinkType::RawIp,
        });
        Self {
            capture: capture.clone(),
            name,
            description,
            interface,
            interface_v1: None,
            frame: Frame::default(),
            comments: Comments::default(),
            tx_buffer: Vec::new(),
            reservation: None,
        }
    }

    /// Wraps `port`, so that each packet that it sends is captured.
    pub(crate) fn tap<'a>(&'a mut self, port: &'a mut dyn Transmit) -> Tap<'a> {
        Tap::new(self, port)
    }

    /// Gives a packet to the NIC and captures it, with comments on what faults did to it before and
    /// what the NIC did with it.
    pub(crate) fn receive(
        &mut self,
        nic: &mut Nic,
        now: Instant,
        meta: &RxMeta,
        transport: &[u8],
        effects: &Effects,
    ) {
        let time = SystemTime::now();
        self.comments.clear();
        self.comments.effects(effects);
        let before = nic.counters().clone();
        nic.receive(now, meta, transport);
        self.comments.received(&before, nic.counters());
        self.write_received(time, meta, transport);
    }

    /// Captures a packet that faults lost before it reached the NIC.
    pub(crate) fn lose(&mut self, meta: &RxMeta, transport: &[u8], why: Loss) {
        let time = SystemTime::now();
        self.comments.clear();
        self.comments.lost(why);
        self.write_received(time, meta, transport);
    }

    /// Writes a received packet with its comments.
    fn write_received(&mut self, time: SystemTime, meta: &RxMeta, transport: &[u8]) {
        let interface = self.interface_of(meta.version());
        let bytes = self.frame.received(meta, transport);
        self.capture.packet(&Packet {
            interface,
            time,
            direction: Direction::Received,
            bytes,
            wire_len: bytes.len(),
            comments: self.comments.get(),
        });
    }

    /// The capture's interface for packets of `version`.
    fn interface_of(&mut self, version: RoceVersion) -> InterfaceId {
        match version {
            RoceVersion::V2 => self.interface,
            RoceVersion::V1 => *self.interface_v1.get_or_insert_with(|| {
                self.capture.add_interface(&Interface {
                    name: &self.name,
                    description: &format!("{}, RoCE v1", self.description),
                    link_type: LinkType::Other(frame::LINKTYPE_LINUX_SLL),
                })
            }),
        }
    }

    /// Writes all packets captured so far to the file.
    pub(crate) fn flush(&self) {
        self.capture.flush();
    }
}

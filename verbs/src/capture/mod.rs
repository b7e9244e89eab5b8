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

mod captured;
mod comments;
mod environment;
mod frame;
mod recent;
mod sinks;
mod tap;
#[cfg(test)]
mod tests;

pub(crate) use environment::check_capture_setting;
pub use environment::environment_capture;
pub(crate) use recent::{MOST_PACKETS, PacketsOfQp};

use crate::device::Device;
use captured::Captured;
use comments::Comments;
use frame::Frame;
use roce_capture::{Capture, Direction};
use roce_port::fault::{Effects, Loss};
use roce_stack::{Instant, Nic, RxMeta, Transmit};
use roce_wire::Qpn;
use sinks::Sinks;
use std::io;
use std::time::SystemTime;
use tap::{Reservation, Tap};

#[derive(Debug)]
pub(crate) struct PortCapture {
    sinks: Sinks,
    /// Reused for each packet.
    frame: Frame,
    comments: Comments,
    /// The buffer in which the next packet to send is built.
    tx_buffer: Vec<u8>,
    reservation: Option<Reservation>,
}

impl PortCapture {
    /// Starts to capture what `device`'s port sends and receives, to `capture` if there is one, and
    /// to memory if `keeps_recent`.
    pub(crate) fn new(capture: Option<&Capture>, keeps_recent: bool, device: &Device) -> Self {
        Self {
            sinks: Sinks::new(capture, keeps_recent, device),
            frame: Frame::default(),
            comments: Comments::default(),
            tx_buffer: Vec::new(),
            reservation: None,
        }
    }

    /// The last packets of a QP, with `explanation` as a comment of the last one. None are there
    /// unless they are kept.
    ///
    /// # Errors
    /// If they can't be encoded.
    pub(crate) fn packets_of(&self, qpn: Qpn, explanation: &str) -> io::Result<PacketsOfQp> {
        match &self.sinks.recent {
            Some(recent) => recent.of_qp(&self.sinks.names, qpn, explanation),
            None => Ok(PacketsOfQp {
                count: 0,
                section: Vec::new(),
            }),
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

    fn write_received(&mut self, time: SystemTime, meta: &RxMeta, transport: &[u8]) {
        let bytes = self.frame.received(meta, transport);
        self.sinks.write(&Captured {
            qpn: dest_qpn(transport),
            version: meta.version(),
            time,
            direction: Direction::Received,
            bytes,
            comments: &self.comments.0,
        });
    }

    /// Writes all packets captured so far to the file.
    pub(crate) fn flush(&self) {
        self.sinks.flush();
    }
}

/// The QP that a packet is for. A packet that is too short is for none; 0 is no QP of ours.
fn dest_qpn(transport: &[u8]) -> Qpn {
    match transport.get(5..8) {
        Some(&[high, middle, low]) => Qpn::from_bits(u32::from_be_bytes([0, high, middle, low])),
        _ => Qpn::from_bits(0),
    }
}

//! A port that captures what is sent through it.

use super::PortCapture;
use super::captured::Captured;
use roce_capture::Direction;
use roce_stack::{
    Acknowledged, Flow, IpCovered, ReserveError, Sequenced, Transmit, TxMeta, TxSlot,
};
use std::time::SystemTime;

/// A packet that is reserved and not committed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    to: TxMeta,
    flow: Flow,
    sequenced: Option<Sequenced>,
    len: usize,
    src_port: u16,
    ip: IpCovered,
}

/// A port that captures each packet it sends. The NIC builds the packet in the tap's buffer,
/// because the port's buffer is not readable after the commit.
pub(crate) struct Tap<'a> {
    capture: &'a mut PortCapture,
    port: &'a mut dyn Transmit,
}

impl<'a> Tap<'a> {
    pub(super) fn new(capture: &'a mut PortCapture, port: &'a mut dyn Transmit) -> Self {
        capture.reservation = None;
        Self { capture, port }
    }

    /// Copies the packet to the port and commits it. Returns whether the port accepted the packet.
    fn forward(&mut self, packet: &Reservation) -> bool {
        // By the contract of `Transmit`, the port gives this second reservation the same header
        // fields as the first.
        match self
            .port
            .reserve(&packet.to, packet.flow, packet.sequenced, packet.len)
        {
            Ok(slot) if slot.src_port == packet.src_port && slot.ip == packet.ip => {
                slot.bytes.copy_from_slice(&self.capture.tx_buffer);
                self.port.commit();
                true
            }
            // If the port breaks the contract, the packet is lost. The stack recovers, as from any
            // loss.
            _ => false,
        }
    }
}

impl Transmit for Tap<'_> {
    fn reserve(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.capture.reservation = None;
        let TxSlot {
            src_port, ip, kept, ..
        } = self.port.reserve(to, flow, sequenced, len)?;
        self.capture.reservation = Some(Reservation {
            to: *to,
            flow,
            sequenced,
            len,
            src_port,
            ip,
        });
        self.capture.tx_buffer.resize(len, 0);
        Ok(TxSlot {
            bytes: &mut self.capture.tx_buffer,
            src_port,
            ip,
            kept,
        })
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.port.acknowledged(flow, which);
    }

    fn commit(&mut self) {
        let Some(packet) = self.capture.reservation.take() else {
            return;
        };
        if !self.forward(&packet) {
            return;
        }
        let PortCapture {
            sinks,
            frame,
            tx_buffer,
            ..
        } = &mut *self.capture;
        let bytes = frame.sent(&packet.to, packet.src_port, packet.ip, tx_buffer);
        sinks.write(&Captured {
            qpn: packet.flow.from_qp,
            version: packet.to.version,
            time: SystemTime::now(),
            direction: Direction::Sent,
            bytes,
            comments: &[],
        });
    }
}

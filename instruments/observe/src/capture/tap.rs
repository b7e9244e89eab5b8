//! The layer around a port that captures what is sent and received through it.

use super::captured::{Captured, Names};
use super::comments::Comments;
use super::frame::Frame;
use super::recent::RecentPackets;
use crate::DeviceNames;
use roce_capture::{Capture, Direction, InterfaceId, Packet};
use roce_port::{Effects, Layer, Loss, Port, PortError, RxSink};
use roce_stack::{Flow, IpCovered, ReserveError, RoceVersion, RxMeta, Sequenced, TxMeta, TxSlot};
use roce_wire::{Bth, Qpn};
use std::time::SystemTime;

/// Captures each packet that the port sends or receives.
#[derive(Debug)]
pub struct Tap {
    names: Names,
    file: Option<File>,
    recent: Option<RecentPackets>,
    /// Reused for each packet.
    frame: Frame,
    pub(super) comments: Comments,
    reservation: Option<Reservation>,
}

/// A capture file, with the interfaces of one device.
#[derive(Debug)]
struct File {
    capture: Capture,
    interface: InterfaceId,
    /// The interface for RoCE v1, added with its first packet.
    interface_v1: Option<InterfaceId>,
}

/// A packet that is reserved and not committed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reservation {
    to: TxMeta,
    from_qp: Qpn,
    src_port: u16,
    ip: IpCovered,
}

impl Tap {
    /// Captures what `device`'s port sends and receives, to a file and to memory.
    pub fn new(
        capture: Option<&Capture>,
        recent: Option<RecentPackets>,
        device: &DeviceNames,
    ) -> Self {
        let names = Names::of(device);
        let file = capture.map(|capture| File {
            interface: capture.add_interface(&names.interface(RoceVersion::V2)),
            capture: capture.clone(),
            interface_v1: None,
        });
        Self {
            names,
            file,
            recent,
            frame: Frame::default(),
            comments: Comments::default(),
            reservation: None,
        }
    }

    fn write_received(&mut self, time: SystemTime, meta: &RxMeta, transport: &[u8]) {
        self.frame.received(meta, transport);
        self.write(
            Bth::dest_qpn_of(transport).unwrap_or(Qpn::QP0),
            meta.version(),
            time,
            Direction::Received,
        );
    }

    /// Writes the packet in [`Tap::frame`], with the comments.
    fn write(&mut self, qpn: Qpn, version: RoceVersion, time: SystemTime, direction: Direction) {
        let packet = Captured {
            qpn,
            version,
            time,
            direction,
            bytes: self.frame.bytes(),
            comments: &self.comments.0,
        };
        if let Some(recent) = &self.recent {
            recent.keep(&packet);
        }
        let Some(file) = &mut self.file else {
            return;
        };
        let interface = match version {
            RoceVersion::V2 => file.interface,
            RoceVersion::V1 => *file.interface_v1.get_or_insert_with(|| {
                let added = self.names.interface(RoceVersion::V1);
                file.capture.add_interface(&added)
            }),
        };
        file.capture.packet(&Packet {
            interface,
            time,
            direction,
            bytes: packet.bytes,
            wire_len: packet.bytes.len(),
            comments: packet.comments,
        });
    }

    /// Writes all packets captured so far to the file, so that they are not lost if the process
    /// crashes.
    fn write_out(&self) {
        if let Some(file) = &self.file {
            file.capture.flush();
        }
    }
}

impl Layer for Tap {
    fn reserve<'a>(
        &'a mut self,
        port: &'a mut impl Port,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'a>, ReserveError> {
        self.reservation = None;
        let slot = port.reserve_run(to, flow, sequenced, len, 1)?;
        self.reservation = Some(Reservation {
            to: *to,
            from_qp: flow.from_qp,
            src_port: slot.src_port,
            ip: slot.ip,
        });
        Ok(slot)
    }

    fn commit(&mut self, port: &mut impl Port) {
        let Some(packet) = self.reservation.take() else {
            return;
        };
        let Reservation {
            to,
            from_qp,
            src_port,
            ip,
        } = &packet;
        let bytes = port.reserved();
        if !bytes.is_empty() {
            self.comments.clear();
            self.frame.sent(to, *src_port, *ip, bytes);
            self.write(*from_qp, to.version, SystemTime::now(), Direction::Sent);
        }
        port.commit();
    }

    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        let received = port.receive(budget, &mut Tapped { tap: self, sink });
        self.write_out();
        received
    }

    fn flush(&mut self, port: &mut impl Port) -> Result<bool, PortError> {
        self.write_out();
        port.flush()
    }
}

/// Captures the packets on their way to a sink, with comments on what faults did to them before and
/// what the NIC did with them.
pub(super) struct Tapped<'a> {
    pub(super) tap: &'a mut Tap,
    pub(super) sink: &'a mut dyn RxSink,
}

impl RxSink for Tapped<'_> {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self.faulty(meta, transport, &Effects::default());
    }

    fn faulty(&mut self, meta: &RxMeta, transport: &[u8], effects: &Effects) {
        let time = SystemTime::now();
        let comments = &mut self.tap.comments;
        comments.clear();
        comments.effects(effects);
        let before = self.sink.counters().cloned();
        self.sink.packet(meta, transport);
        if let (Some(before), Some(after)) = (before, self.sink.counters()) {
            comments.received(&before, after);
        }
        self.tap.write_received(time, meta, transport);
    }

    fn lost(&mut self, meta: &RxMeta, transport: &[u8], why: Loss) {
        let comments = &mut self.tap.comments;
        comments.clear();
        comments.lost(why);
        self.tap.write_received(SystemTime::now(), meta, transport);
    }
}

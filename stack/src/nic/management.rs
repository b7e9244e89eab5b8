//! The general services QP, QP1, which sends and receives management datagrams (IBTA 1.7, 3.9.3 and
//! 13.5.1). It has no work queues: a received datagram waits in a bounded inbox until the caller
//! polls it, and a datagram to send is copied to a bounded outbox.
//!
//! The NIC itself never answers a datagram, and no datagram makes a QP fail.

use super::Nic;
use crate::counters::{DropReason, Stat};
use crate::encapsulation::{RxMeta, TxMeta};
use crate::mismatch::{Difference, Mismatch};
use crate::qp::emit::{self, Written, count_packets, write_packet};
use crate::qpn_range::QpnRange;
use crate::transmit::Transmit;
use core::fmt;
use core::hint::cold_path;
use roce_wire::{
    Bth, Deth, ExtHeaders, Opcode, Operation, PKey, Packet, PacketRepr, Psn, QKey, Qpn, Transport,
};
use std::collections::VecDeque;

/// Bytes of a management datagram (IBTA 1.7, 13.4.2).
pub const MAD_BYTES: usize = 256;

/// The maximum number of datagrams that wait, in each direction: 64 KiB.
const MAX_WAITING: usize = 256;

/// A received management datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMad {
    /// The path back to the sender, which an answer takes.
    pub path: TxMeta,
    /// The QP that sent it; 1 for another general services QP.
    pub src_qpn: Qpn,
    /// The datagram: any bytes at all.
    pub mad: [u8; MAD_BYTES],
}

/// A management datagram that waits to be sent.
#[derive(Debug)]
struct Outgoing {
    path: TxMeta,
    mad: [u8; MAD_BYTES],
}

/// QP1, once it is open.
#[derive(Debug)]
pub(super) struct GeneralServices {
    inbox: VecDeque<ReceivedMad>,
    outbox: VecDeque<Outgoing>,
    psn: Psn,
}

/// Why a management datagram is not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MadError {
    /// QP1 is not open; see [`Nic::open_general_services`].
    NotOpen,
    /// The queue of outgoing datagrams is full.
    Full {
        /// The size of the queue.
        max: usize,
    },
}

impl fmt::Display for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen => f.write_str("QP1 is closed: open general services first"),
            Self::Full { max } => write!(
                f,
                "{max} management datagrams already wait to be sent: transmit them first"
            ),
        }
    }
}

impl fmt::Debug for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for MadError {}

impl Nic {
    /// Opens QP1: from now on it receives management datagrams. Opening it twice does nothing.
    pub fn open_general_services(&mut self) {
        if self.management.is_none() {
            let psn = self.random_psn();
            self.management = Some(Box::new(GeneralServices {
                inbox: VecDeque::new(),
                outbox: VecDeque::new(),
                psn,
            }));
        }
    }

    /// Closes QP1. The NIC drops the datagrams that wait there in either direction, and every
    /// datagram that arrives from now on.
    pub fn close_general_services(&mut self) {
        self.management = None;
    }

    /// Whether received management datagrams wait to be polled.
    #[inline]
    pub fn has_mads(&self) -> bool {
        self.management
            .as_ref()
            .is_some_and(|services| !services.inbox.is_empty())
    }

    /// Takes the next received management datagram.
    pub fn poll_mad(&mut self) -> Option<ReceivedMad> {
        self.management.as_mut()?.inbox.pop_front()
    }

    /// Queues a management datagram to QP1 at the end of `path`; the next [`Nic::transmit`] sends
    /// it. Nothing reports whether it arrives.
    ///
    /// # Errors
    /// See [`MadError`].
    pub fn send_mad(&mut self, path: TxMeta, mad: &[u8; MAD_BYTES]) -> Result<(), MadError> {
        let services = self.management.as_mut().ok_or(MadError::NotOpen)?;
        if services.outbox.len() == MAX_WAITING {
            return Err(MadError::Full { max: MAX_WAITING });
        }
        services.outbox.push_back(Outgoing { path, mad: *mad });
        Ok(())
    }

    /// Handles a well-formed packet to a QPN that is not in use.
    // rule: 10.2.7-special-qps, 13.5.1-taken
    #[cold]
    pub(super) fn receive_for_unknown_qpn(&mut self, qpn: Qpn, meta: &RxMeta, packet: &Packet<'_>) {
        let taken = match &mut self.management {
            Some(services) if qpn == Qpn::QP1 => {
                self.shared.counters.count(Stat::RxPackets);
                self.shared.counters.count(Stat::RxMads);
                services.receive(meta, packet)
            }
            // rule: 9.6.1-unknown-qp, CA17-33-qp0
            _ => Err(DropReason::UnknownQp),
        };
        if let Err(reason) = taken {
            self.shared.counters.drop(reason);
            let is_ours = self.part.is_none_or(|part| part == QpnRange::of(qpn));
            if is_ours && qpn.get() > 1 && packet.bth.opcode.operation() != Operation::Cnp {
                let found = (DropReason::UnknownQp, Difference::NoQp);
                let unknown = Mismatch::new(qpn, meta, packet, found);
                self.observed.mismatches.note(unknown);
            }
        }
    }

    /// Whether management datagrams wait to be sent.
    #[inline]
    pub(super) fn has_mads_to_send(&self) -> bool {
        self.management
            .as_ref()
            .is_some_and(|services| !services.outbox.is_empty())
    }

    /// Sends the waiting management datagrams. Returns whether the port had room for all.
    pub(super) fn transmit_mads(&mut self, port: &mut dyn Transmit) -> bool {
        let Some(services) = &mut self.management else {
            return true;
        };
        cold_path();
        while let Some(outgoing) = services.outbox.front() {
            let repr = headers(services.psn);
            let Outgoing { path, mad } = outgoing;
            let packet = emit::Outgoing {
                path,
                from_qp: Qpn::QP1,
                sequenced: None,
                repr: &repr,
                payload_len: MAD_BYTES,
                is_last: false,
            };
            let written = write_packet(port, &packet, |packet| {
                packet.payload_mut().copy_from_slice(mad);
                Ok(())
            });
            let Ok(written) = written else {
                // The port is full; copying the payload can't fail.
                return false;
            };
            count_packets(&mut self.shared.counters, written, 1, 0);
            if written != Written::Unsendable {
                self.shared.counters.count(Stat::TxMads);
            }
            services.psn = services.psn.next();
            services.outbox.pop_front();
        }
        true
    }
}

impl GeneralServices {
    // rule: 13.5.1-silent
    fn receive(&mut self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        let opcode = packet.bth.opcode;
        if opcode.transport() != Transport::Ud || opcode.operation() != Operation::Send {
            return Err(DropReason::WrongTransport);
        }
        // rule: 13.5.1-partition
        if !PKey::DEFAULT.matches(packet.bth.pkey) {
            return Err(DropReason::WrongPKey);
        }
        // Every UD packet has a DETH.
        let deth = packet.ext.deth.ok_or(DropReason::Malformed)?;
        // rule: 13.5.1-key
        if deth.qkey != QKey::QP1 {
            return Err(DropReason::WrongQKey);
        }
        // rule: 13.4.2-length
        let mad = <[u8; MAD_BYTES]>::try_from(packet.payload).map_err(|_| DropReason::BadLength)?;
        // rule: 13.5.1-bounded
        if self.inbox.len() == MAX_WAITING {
            return Err(DropReason::MadsFull);
        }
        self.inbox.push_back(ReceivedMad {
            path: path_back(meta),
            src_qpn: deth.src_qpn,
            mad,
        });
        Ok(())
    }
}

/// The path back to the sender of a packet. It does not copy the packet's ECN bits.
fn path_back(meta: &RxMeta) -> TxMeta {
    TxMeta {
        src: meta.dst,
        dst: meta.src,
        traffic_class: meta.traffic_class & !3,
        hop_limit: 0,
        version: meta.version(),
    }
}

/// The headers of a management datagram: from QP1 to QP1, in the default partition.
// rule: 13.5.1-sent
fn headers(psn: Psn) -> PacketRepr {
    PacketRepr {
        bth: Bth::new(Opcode::UD_SEND_ONLY, Qpn::QP1, psn),
        ext: ExtHeaders {
            deth: Some(Deth {
                qkey: QKey::QP1,
                src_qpn: Qpn::QP1,
            }),
            ..ExtHeaders::NONE
        },
    }
}

//! The receiving half of a UC QP (IBTA 1.7, 9.8.2.2 and 9.9.3).
//!
//! A message with an error is dropped silently, since UC has no NAK. Only an error in the receive's
//! own memory completes the receive with an error and fails the QP.

use crate::counters::{DropReason, Stat};
use crate::encapsulation::RxMeta;
use crate::memory::{Access, AccessError};
use crate::mismatch::{Difference, Mismatch};
use crate::qp::arrivals::{self, Arrival};
use crate::qp::inbound::{Inbound, length_is_legal, write_target};
use crate::qp::{Core, Cx, QpFailure, Receives, sgl};
use crate::wr::{MAX_MESSAGE_BYTES, WcStatus};
use roce_wire::{Operation, Packet, Position, Psn};

/// Places packets, and completes messages that arrive completely.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) rq: Receives,
    /// The PSN with which the message in progress continues.
    epsn: Psn,
    inbound: Option<Inbound>,
}

/// Why a packet, and its message with it, is dropped.
enum Refusal {
    /// An error of the peer, or a loss: the packet is dropped and counted.
    Drop(DropReason),
    /// The receive at the front is at fault, or a CQ overran.
    Failure(QpFailure),
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl Receiver {
    pub(crate) fn new(rq: Receives) -> Self {
        Self {
            rq,
            epsn: Psn::new(0),
            inbound: None,
        }
    }

    /// The PSN that the next packet should have.
    pub(crate) fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Init to RTR. Receives that were posted in Init stay.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.epsn = psn;
        self.inbound = None;
    }

    /// Abandons the message in progress, if there is one.
    pub(crate) fn abandon(&mut self) {
        self.inbound = None;
    }

    /// Handles a packet.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        meta: &RxMeta,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let position = packet.bth.opcode.position();
        let begins = matches!(position, Position::First | Position::Only);
        // The message that this packet continues. It stays open only if the packet is accepted.
        // rule: 9.8.2-receive-reused
        let open = self.inbound.take();
        let known = match (begins, open) {
            (true, Some(_)) => {
                // The end of the previous message was lost.
                cx.nic.counters.count(Stat::UnfinishedMessages);
                None
            }
            // rule: 9.8.2-resync-at-first
            (true, None) => None,
            (false, None) => {
                cx.drop(DropReason::OutOfPlace);
                return Ok(());
            }
            // rule: 9.8.2-gap-drops-message
            (false, Some(_)) if packet.bth.psn != self.epsn => {
                cx.nic.counters.count(Stat::UnfinishedMessages);
                cx.drop(DropReason::OutOfSequence);
                return Ok(());
            }
            (false, open) => open,
        };
        self.epsn = packet.bth.psn.next();
        let result = match packet.bth.opcode.operation() {
            Operation::Send => self.place_send(cx, core, packet, known),
            Operation::Write => self.place_write(cx, core, packet, known),
            _ => Err(DropReason::Unsupported.into()),
        };
        match result {
            Ok(()) => Ok(()),
            Err(Refusal::Drop(reason)) => {
                if known.is_some() {
                    cx.nic.counters.count(Stat::UnfinishedMessages);
                }
                cx.drop(reason);
                if let Some(difference) = self.difference(cx, core, packet, (reason, known)) {
                    let found = Mismatch::new(core.qpn, meta, packet, (reason, difference));
                    cx.observe.mismatch(found);
                }
                Ok(())
            }
            Err(Refusal::Failure(failure)) => Err(failure),
        }
    }

    /// What of a dropped packet does not fit the QP. `known` is the message that it continues.
    #[cold]
    fn difference(
        &self,
        cx: &Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        (reason, known): (DropReason, Option<Inbound>),
    ) -> Option<Difference> {
        let len = packet.payload.len();
        Some(match reason {
            DropReason::BadLength => Difference::Length {
                len,
                mtu: core.config.mtu(),
            },
            DropReason::NoReceive => Difference::NoReceive,
            DropReason::ReceiveTooSmall => {
                let before = match known {
                    Some(Inbound::Send { placed }) => placed,
                    _ => 0,
                };
                Difference::ReceiveTooShort {
                    message: before + len as u64,
                    header: 0,
                    receive: self.rq.front().map_or(0, |wqe| wqe.len),
                }
            }
            DropReason::AccessDenied if !core.config.access.contains(Access::REMOTE_WRITE) => {
                Difference::Right(Access::REMOTE_WRITE)
            }
            DropReason::AccessDenied => {
                let (va, rkey, _, rest) = write_target(known, packet)?;
                let (rest, rights) = (u64::from(rest), Access::REMOTE_WRITE);
                let found = cx
                    .nic
                    .memory
                    .remote(core.pd, core.qpn, rkey, va, rest, rights);
                let error = found.map(drop).err().unwrap_or(AccessError::Fault);
                Difference::Memory(cx.nic.memory.denied((rkey, va, rest), rights, error))
            }
            _ => return None,
        })
    }

    /// Handles a packet of a SEND.
    fn place_send(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        open: Option<Inbound>,
    ) -> Result<(), Refusal> {
        let offset = match open {
            None => 0,
            Some(Inbound::Send { placed }) => placed,
            // rule: 9.8.2-sequence
            Some(Inbound::Write { .. }) => return Err(DropReason::OutOfPlace.into()),
        };
        if !length_is_legal(packet, core.config.mtu()) {
            return Err(DropReason::BadLength.into());
        }
        self.rq.ensure_receive(cx);
        let Some(wqe) = self.rq.front() else {
            // rule: 9.8.2-no-receive-drops
            return Err(DropReason::NoReceive.into());
        };
        let placed = offset + packet.payload.len() as u64;
        if placed > wqe.len.min(MAX_MESSAGE_BYTES) {
            // rule: 9.8.2-too-long
            return Err(DropReason::ReceiveTooSmall.into());
        }
        let (pd, sges) = (self.rq.pd(core), self.rq.sges());
        if sgl::scatter(&cx.nic.memory, pd, sges, offset, packet.payload).is_err() {
            let range = (offset, packet.payload.len());
            cx.observe
                .failed(arrivals::memory_cause(&cx.nic.memory, pd, sges, range));
            return Err(self.fail_receive(cx, core));
        }
        if !ends(packet) {
            self.inbound = Some(Inbound::Send { placed });
            return Ok(());
        }
        let arrival = Arrival {
            bytes: u32::try_from(placed).unwrap_or(u32::MAX),
            by_write: false,
            solicited: packet.bth.solicited,
            imm: packet.ext.imm.map(|imm| imm.0),
            ..Arrival::default()
        };
        self.complete(cx, core, arrival)
    }

    /// Handles a packet of a WRITE. Key, rights and bounds are checked at each packet for all
    /// missing bytes, since the region may be deregistered between two packets.
    fn place_write(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        open: Option<Inbound>,
    ) -> Result<(), Refusal> {
        let (va, rkey, total, rest) = write_target(open, packet).ok_or(DropReason::OutOfPlace)?;
        let ends = ends(packet);
        // No more than one path MTU, so it fits in 32 bits.
        let len = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);
        // The packets must add up to the length that was announced.
        let adds_up = if ends { len == rest } else { len < rest };
        let legal = length_is_legal(packet, core.config.mtu());
        if !legal || !adds_up || u64::from(total) > MAX_MESSAGE_BYTES {
            return Err(DropReason::BadLength.into());
        }
        if !core.config.access.contains(Access::REMOTE_WRITE) {
            return Err(DropReason::AccessDenied.into());
        }
        // rule: 9.8.2-write-immediate-loss
        if ends && packet.ext.imm.is_some() && !self.rq.ensure_receive(cx) {
            return Err(DropReason::NoReceive.into());
        }
        // A WRITE of no bytes needs no key (IBTA 1.7, 9.7.4.1.5).
        if rest > 0 {
            let rights = Access::REMOTE_WRITE;
            cx.nic
                .memory
                .remote(core.pd, core.qpn, rkey, va, rest.into(), rights)
                .and_then(|target| target.prefix(packet.payload.len()).write(packet.payload))
                // rule: 9.8.2-write-check
                .map_err(|_| DropReason::AccessDenied)?;
        }
        if !ends {
            self.inbound = Some(Inbound::Write {
                va: va + u64::from(len),
                rkey,
                total,
                rest: rest - len,
            });
            return Ok(());
        }
        let Some(imm) = packet.ext.imm else {
            return Ok(());
        };
        let arrival = Arrival {
            bytes: total,
            by_write: true,
            solicited: packet.bth.solicited,
            imm: Some(imm.0),
            ..Arrival::default()
        };
        self.complete(cx, core, arrival)
    }

    fn complete(&mut self, cx: &mut Cx<'_>, core: &Core, arrival: Arrival) -> Result<(), Refusal> {
        arrivals::complete(&mut self.rq, cx, core, WcStatus::Success, arrival)
            .map_err(Refusal::Failure)?;
        Ok(())
    }

    /// Fails the receive at the front, whose memory can't be written: it completes with that error,
    /// and the QP fails (IBTA 1.7, 9.9.3.1.1).
    // rule: 9.8.2-bad-receive
    fn fail_receive(&mut self, cx: &mut Cx<'_>, core: &Core) -> Refusal {
        let status = WcStatus::LocalProtectionError;
        let completed = arrivals::complete(&mut self.rq, cx, core, status, Arrival::default());
        Refusal::Failure(completed.err().unwrap_or(QpFailure::Receive))
    }
}

/// Whether the packet is its message's last.
fn ends(packet: &Packet<'_>) -> bool {
    matches!(
        packet.bth.opcode.position(),
        Position::Last | Position::Only
    )
}

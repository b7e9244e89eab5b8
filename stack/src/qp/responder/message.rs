//! SEND and WRITE: places their bytes in memory.

use super::{Arrival, Refusal, Responder};
use crate::memory::Access;
use crate::qp::{Core, Cx, QpFailure, sgl};
use crate::wr::{MAX_MESSAGE_BYTES, WcStatus};
use core::hint::cold_path;
use roce_wire::{Packet, Position};

/// A message that is being received.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inbound {
    /// A SEND into the receive at the front of the queue; `placed` bytes have been placed.
    Send { placed: u64 },
    /// A WRITE to the region with this key, from `va` on; `rest` of `total` bytes are still
    /// missing.
    Write {
        va: u64,
        rkey: u32,
        total: u32,
        rest: u32,
    },
}

impl Inbound {
    /// Whether the receive at the front of the queue is in use.
    pub(super) fn holds_receive(&self) -> bool {
        matches!(self, Self::Send { .. })
    }
}

/// Whether the payload has the length that its place in the message requires (IBTA 1.7, 9.7.4.1.6).
fn length_is_legal(position: Position, len: usize, mtu: usize) -> bool {
    let shortest = match position {
        // rule: 9.7.4.1-length-full
        Position::First | Position::Middle => mtu,
        // rule: 9.7.4.1-length-last
        Position::Last => 1,
        // rule: 9.7.4.1-length-only
        Position::Only => 0,
    };
    (shortest..=mtu).contains(&len)
}

impl Responder {
    /// Handles a packet of a SEND.
    // rule: 9.4.1-send
    pub(super) fn execute_send(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let position = packet.bth.opcode.position();
        let begins = matches!(position, Position::First | Position::Only);
        let ends = matches!(position, Position::Last | Position::Only);
        let offset = match (self.inbound, begins) {
            // rule: 9.7.4.1.2-ends
            (None, true) => 0,
            // rule: 9.7.4.1.2-begins
            (Some(Inbound::Send { placed }), false) => placed,
            _ => return Err(self.refuse(Refusal::InvalidRequest)),
        };
        if !length_is_legal(position, packet.payload.len(), core.config.mtu()) {
            return Err(self.refuse(Refusal::InvalidRequest));
        }
        self.rq.ensure_receive(cx);
        // rule: 9.7.4.1-no-receive
        let Some(wqe) = self.rq.front() else {
            self.not_ready();
            return Ok(());
        };
        let placed = offset + packet.payload.len() as u64;
        // rule: 9.7.4.1-longest-send
        if placed > wqe.len.min(MAX_MESSAGE_BYTES) {
            return self.fail_receive(cx, core, WcStatus::LocalLengthError);
        }
        // rule: 9.4.1-no-remote-right
        let (pd, sges) = (self.rq.pd(core), self.rq.sges());
        if sgl::scatter(cx.memory, pd, sges, offset, packet.payload).is_err() {
            // rule: 9.9.3-receive-protection
            return self.fail_receive(cx, core, WcStatus::LocalProtectionError);
        }
        if !ends {
            self.inbound = Some(Inbound::Send { placed });
            // rule: 9.7.5.1.2-executed-first
            self.accept(packet);
            return Ok(());
        }
        self.inbound = None;
        // rule: 9.4.1.1-invalidate-told
        let invalidated = packet.ext.ieth.map(|ieth| ieth.0);
        let pd = self.rq.remote_pd(core);
        // rule: 9.4.1.1-invalidate
        if let Some(rkey) = invalidated
            && cx.memory.invalidate(pd, core.qpn, rkey).is_err()
        {
            return self.fail_invalidate(cx, core);
        }
        let arrival = Arrival {
            // rule: 11.6.1-receive-length
            bytes: u32::try_from(placed).unwrap_or(u32::MAX),
            by_write: false,
            solicited: packet.bth.solicited,
            // rule: 9.4.1-immediate
            imm: packet.ext.imm.map(|imm| imm.0),
            invalidated,
            source: None,
        };
        self.count_message();
        self.accept(packet);
        self.complete_receive(cx, core, WcStatus::Success, arrival)?;
        Ok(())
    }

    /// Handles a packet of a WRITE. Key, rights and bounds are checked for the whole message at its
    /// first packet (IBTA 1.7, 9.7.4.1.5), and again at each packet, since the region may be
    /// deregistered in between.
    // rule: 9.4.3-write
    pub(super) fn execute_write(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let (va, rkey, total, rest) = match self.write_target(packet) {
            Some(target) => target,
            None => {
                cold_path();
                return Err(self.refuse(Refusal::InvalidRequest));
            }
        };
        let position = packet.bth.opcode.position();
        let len = packet.payload.len();
        let ends = matches!(position, Position::Last | Position::Only);
        // The packets must add up to the length that was announced (9.7.4.1.6).
        // rule: 9.7.4.1-write-adds-up
        let adds_up = if ends {
            len as u64 == u64::from(rest)
        } else {
            (len as u64) < rest.into()
        };
        // rule: 9.7.4.1.3-write-enabled
        let enabled = core.config.access.contains(Access::REMOTE_WRITE);
        let legal = length_is_legal(position, len, core.config.mtu());
        // rule: 9.7.4.1-longest-write
        if !adds_up || !legal || !enabled || u64::from(total) > MAX_MESSAGE_BYTES {
            cold_path();
            return Err(self.refuse(Refusal::InvalidRequest));
        }
        // rule: 9.7.4.1-no-receive-write
        let receiver_ready = packet.ext.imm.is_none() || self.rq.ensure_receive(cx);
        // A WRITE of no bytes needs no key (9.7.4.1.5).
        // rule: 9.7.4.1-no-bytes-no-key
        let target = if rest > 0 {
            let rights = Access::REMOTE_WRITE;
            // rule: 9.7.4.1-whole-first
            match cx.memory.remote(
                self.rq.remote_pd(core),
                core.qpn,
                rkey,
                va,
                rest.into(),
                rights,
            ) {
                Ok(target) => Some(target),
                Err(_) => {
                    cold_path();
                    return self.deny_write(cx, core, packet);
                }
            }
        } else {
            None
        };
        if !receiver_ready {
            cold_path();
            self.not_ready();
            return Ok(());
        }
        if let Some(target) = target
            // rule: 9.4.3-write-immediate-memory
            && target.prefix(len).write(packet.payload).is_err()
        {
            cold_path();
            return self.deny_write(cx, core, packet);
        }
        if !ends {
            // Shorter than `rest`, so it fits in 32 bits.
            let step = u32::try_from(len).unwrap_or(rest);
            self.inbound = Some(Inbound::Write {
                va: va + u64::from(step),
                rkey,
                total,
                rest: rest - step,
            });
            self.accept(packet);
            return Ok(());
        }
        self.inbound = None;
        self.count_message();
        self.accept(packet);
        // rule: 9.4.3-write-silent
        if let Some(imm) = packet.ext.imm {
            let arrival = Arrival {
                // rule: 11.6.1-write-imm-length
                bytes: total,
                // rule: 9.4.3-write-immediate
                by_write: true,
                solicited: packet.bth.solicited,
                imm: Some(imm.0),
                ..Arrival::default()
            };
            self.complete_receive(cx, core, WcStatus::Success, arrival)?;
        }
        Ok(())
    }

    /// Refuses a WRITE whose memory is denied. A receive that it would consume completes with the
    /// reason (IBTA 1.7, 11.6.2).
    // rule: 9.9.3-denied-immediate
    #[cold]
    fn deny_write(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        let failure = self.refuse(Refusal::AccessError);
        let reported = packet.ext.imm.is_some()
            && self.complete_receive(cx, core, WcStatus::LocalAccessError, Arrival::default())?;
        Err(if reported {
            QpFailure::Receive
        } else {
            failure
        })
    }

    /// The destination of the packet's bytes: address, key, length of the message, and the length
    /// that is left, this packet included. `None` if the packet is out of place.
    // rule: 9.7.4.1.2-one-kind
    fn write_target(&self, packet: &Packet<'_>) -> Option<(u64, u32, u32, u32)> {
        match (self.inbound, packet.ext.reth) {
            (None, Some(reth)) => Some((reth.va, reth.rkey, reth.dma_len, reth.dma_len)),
            (
                Some(Inbound::Write {
                    va,
                    rkey,
                    total,
                    rest,
                }),
                None,
            ) => Some((va, rkey, total, rest)),
            _ => None,
        }
    }

    /// Fails the receive at the front, which can't take the message: it completes with `status`,
    /// and the peer gets a NAK for an invalid request or an operational error (IBTA 1.7, 9.9.3).
    fn fail_receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        status: WcStatus,
    ) -> Result<(), QpFailure> {
        let refusal = match status {
            // rule: 9.9.3-too-small
            WcStatus::LocalLengthError => Refusal::InvalidRequest,
            _ => Refusal::OperationalError,
        };
        let _ = self.refuse(refusal);
        self.complete_receive(cx, core, status, Arrival::default())?;
        Err(QpFailure::Receive)
    }

    /// Fails the QP because a SEND with invalidate names a key that may not be invalidated. The
    /// receive completes with an error and the QP fails, but the peer gets no NAK (IBTA 1.7,
    /// 9.9.6.3, class J). The peer retries until its retries are used up.
    // rule: 9.4.1.1-invalidate-refused
    #[cold]
    fn fail_invalidate(&mut self, cx: &mut Cx<'_>, core: &Core) -> Result<(), QpFailure> {
        self.complete_receive(cx, core, WcStatus::RemoteInvalidRequest, Arrival::default())?;
        Err(QpFailure::Receive)
    }
}

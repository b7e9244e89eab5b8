//! SEND and WRITE: places their bytes in memory.

use super::{Arrival, Denial, Refusal, Responder, cause};
use crate::cause::Cause;
use crate::memory::{Access, AccessError};
use crate::qp::inbound::{Inbound, length_is_legal, write_target};
use crate::qp::{Core, Cx, arrivals, sgl};
use crate::wr::{MAX_MESSAGE_BYTES, WcStatus};
use core::hint::cold_path;
use roce_wire::{Packet, Position};

/// A WRITE whose memory is denied. If it consumes a receive, the receive completes with the reason
/// (IBTA 1.7, 11.6.2).
#[cold]
fn denied_write(
    cx: &mut Cx<'_>,
    packet: &Packet<'_>,
    access: (u32, u64, u64),
    error: AccessError,
) -> Denial {
    let opcode = packet.bth.opcode;
    cause::name_denied(cx, opcode, access, Access::REMOTE_WRITE, error);
    // rule: 9.9.3-denied-immediate
    match packet.ext.imm {
        Some(_) => Denial::Receive(WcStatus::LocalAccessError),
        None => Refusal::AccessError.into(),
    }
}

impl Responder {
    /// Handles a packet of a SEND.
    // rule: 9.4.1-send
    pub(super) fn execute_send(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        let position = packet.bth.opcode.position();
        let begins = matches!(position, Position::First | Position::Only);
        let ends = matches!(position, Position::Last | Position::Only);
        let offset = match (self.inbound, begins) {
            // rule: 9.7.4.1.2-ends
            (None, true) => 0,
            // rule: 9.7.4.1.2-begins
            (Some(Inbound::Send { placed }), false) => placed,
            _ => return Err(cause::out_of_place(cx, packet)),
        };
        if !length_is_legal(packet, core.config.mtu()) {
            return Err(cause::wrong_length(cx, core, packet));
        }
        // rule: 9.7.4.1-no-receive
        let Some((wqe, sges)) = self.rq.peek(&cx.nic.srqs) else {
            return Err(Denial::NotReady);
        };
        let placed = offset + packet.payload.len() as u64;
        // rule: 9.7.4.1-longest-send
        if placed > wqe.len.min(MAX_MESSAGE_BYTES) {
            cx.observe.failed(Cause::MessageTooLong {
                arrived: placed,
                receive: wqe.len,
            });
            return Err(Denial::Receive(WcStatus::LocalLengthError));
        }
        // rule: 9.4.1.1-invalidate-told
        let invalidated = packet.ext.ieth.map(|ieth| ieth.0);
        let remote_pd = self.rq.remote_pd(core);
        // Before any byte is placed: a kept request that is denied leaves the receive to others.
        if let Some(rkey) = invalidated
            && let Err(error) = cx.nic.memory.check_invalidation(remote_pd, core.qpn, rkey)
        {
            cx.observe.failed(Cause::PeerInvalidation { rkey, error });
            return Err(Denial::Receive(WcStatus::RemoteInvalidRequest));
        }
        // rule: 9.4.1-no-remote-right
        let pd = self.rq.pd(core);
        if sgl::scatter(&cx.nic.memory, pd, sges, offset, packet.payload).is_err() {
            let range = (offset, packet.payload.len());
            cx.observe
                .failed(arrivals::memory_cause(&cx.nic.memory, pd, sges, range));
            // rule: 9.9.3-receive-protection
            return Err(Denial::Receive(WcStatus::LocalProtectionError));
        }
        // rule: 9.4.1.1-invalidate
        if let Some(rkey) = invalidated {
            cx.nic.memory.revoke(rkey);
        }
        self.rq.ensure_receive(cx);
        if !ends {
            self.inbound = Some(Inbound::Send { placed });
            // rule: 9.7.5.1.2-executed-first
            self.accept(packet);
            cx.observe.middle();
            return Ok(());
        }
        self.inbound = None;
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
    ) -> Result<(), Denial> {
        let (va, rkey, total, rest) = match write_target(self.inbound, packet) {
            Some(target) => target,
            None => {
                cold_path();
                return Err(cause::out_of_place(cx, packet));
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
        let legal = length_is_legal(packet, core.config.mtu());
        // rule: 9.7.4.1-longest-write
        if !adds_up || !legal || !enabled || u64::from(total) > MAX_MESSAGE_BYTES {
            cold_path();
            let opcode = packet.bth.opcode;
            return Err(match enabled {
                false => cause::no_right(cx, packet, Access::REMOTE_WRITE),
                true if u64::from(total) > MAX_MESSAGE_BYTES => {
                    cause::invalid(cx, Cause::TooLong { opcode, len: total })
                }
                true => cause::wrong_length(cx, core, packet),
            });
        }
        // rule: 9.7.4.1-no-receive-write
        let receiver_ready = packet.ext.imm.is_none() || self.rq.peek(&cx.nic.srqs).is_some();
        // A WRITE of no bytes needs no key (9.7.4.1.5).
        // rule: 9.7.4.1-no-bytes-no-key
        let target = if rest > 0 {
            let rights = Access::REMOTE_WRITE;
            // rule: 9.7.4.1-whole-first
            match cx.nic.memory.remote(
                self.rq.remote_pd(core),
                core.qpn,
                rkey,
                va,
                rest.into(),
                rights,
            ) {
                Ok(target) => Some(target),
                Err(error) => {
                    cold_path();
                    let access = (rkey, va, u64::from(rest));
                    return Err(denied_write(cx, packet, access, error));
                }
            }
        } else {
            None
        };
        if !receiver_ready {
            cold_path();
            return Err(Denial::NotReady);
        }
        if let Some(target) = target
            // rule: 9.4.3-write-immediate-memory
            && target.prefix(len).write(packet.payload).is_err()
        {
            cold_path();
            let access = (rkey, va, len as u64);
            return Err(denied_write(cx, packet, access, AccessError::Fault));
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
            cx.observe.middle();
            return Ok(());
        }
        self.inbound = None;
        self.count_message();
        self.accept(packet);
        if packet.ext.imm.is_none() && len == core.config.mtu() {
            // It may be part of a train, like the packet before it.
            cx.observe.middle();
        }
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
            self.rq.ensure_receive(cx);
            self.complete_receive(cx, core, WcStatus::Success, arrival)?;
        }
        Ok(())
    }
}

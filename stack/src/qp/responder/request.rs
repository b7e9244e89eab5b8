//! Classification of requests: next, duplicate, or behind a gap (IBTA 1.7, 9.7.4.1).

use super::{Denial, Responder, cause};
use crate::cause::Cause;
use crate::counters::{DropReason, Stat};
use crate::observe::Verdict;
use crate::qp::suspicion::Gap;
use crate::qp::{Core, Cx, QpFailure, mismatched};
use crate::seq::Seq;
use core::cmp::Ordering;
use core::hint::cold_path;
use roce_wire::{Operation, Packet};

/// The gap behind the first PSN from which on the ends did not agree on it. Lost packets leave smaller
/// ones: no QP has that many outstanding.
const PSN_GAP_OF_STRANGERS: u32 = 1 << 16;

impl Responder {
    /// Handles a request that came from the UDP source port `port`.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        port: u16,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        // rule: 9.7.4.1.1-half
        let at = self.epsn.nearest(packet.bth.psn);
        match at.cmp(&self.epsn) {
            Ordering::Equal => {
                if self.is_persisting() {
                    cold_path();
                    cx.nic.counters.count(Stat::DuplicateRequests);
                    cx.observe.verdict(Verdict::Duplicate);
                    return Ok(());
                }
                if !self.suspicion.is_usual(port) {
                    cold_path();
                    if self.suspicion.refuses(cx, core, port) {
                        return Ok(());
                    }
                    self.suspicion.note_in_order(core, port);
                }
                self.nak_sent = false;
                self.not_ready = false;
                // rule: 9.7.5.2-sequence-nak-moot
                self.replies.withdraw_nak();
                if let Err(denial) = self.execute(cx, core, packet) {
                    cold_path();
                    self.deny(cx, core, denial)?;
                }
                self.catch_up(cx, core)
            }
            // rule: 9.7.4.1.1-duplicate
            Ordering::Less => {
                cold_path();
                self.note_first_psn(cx, core, packet, 0);
                self.suspicion
                    .judge(cx, core, port, Gap::Other(self.epsn - at));
                if !self.suspicion.refuses(cx, core, port) {
                    self.repeat(cx, core, packet, at);
                }
                Ok(())
            }
            // rule: 9.7.4.1.1-gap
            Ordering::Greater => {
                cold_path();
                self.note_first_psn(cx, core, packet, PSN_GAP_OF_STRANGERS);
                self.suspicion
                    .judge(cx, core, port, Gap::Loss(at - self.epsn));
                if !self.suspicion.refuses(cx, core, port) {
                    self.receive_out_of_order(cx, core, at, port, packet);
                }
                Ok(())
            }
        }
    }

    /// Notes a packet that has not the PSN with which the QP begins, if no packet had it yet, and the
    /// two differ by at least `gap`.
    #[cold]
    fn note_first_psn(&self, cx: &mut Cx<'_>, core: &Core, packet: &Packet<'_>, gap: u32) {
        let (sent, expected) = (packet.bth.psn, self.first.wire());
        if self.epsn == self.first
            && sent.diff(expected).unsigned_abs() >= gap
            && let Some(found) = mismatched::other_psn(core, packet, expected)
        {
            cx.observe.mismatch(found);
        }
    }

    /// Executes the request that is due.
    pub(super) fn execute(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        if !self.select_srq(cx, packet, self.inbound.is_some()) {
            cold_path();
            return Err(cause::invalid(cx, Cause::WrongSrq));
        }
        match packet.bth.opcode.operation() {
            Operation::Send => self.execute_send(cx, core, packet),
            Operation::Write => self.execute_write(cx, core, packet),
            Operation::ReadRequest => self.execute_read(cx, core, packet),
            Operation::CompareSwap | Operation::FetchAdd => self.execute_atomic(cx, core, packet),
            Operation::Flush => self.execute_flush(cx, core, packet),
            Operation::AtomicWrite => self.execute_atomic_write(cx, core, packet),
            // rule: 9.7.4.1.3-supported
            _ => Err(cause::unsupported(cx, packet)),
        }
    }

    /// Answers a duplicate request: SEND and WRITE with an acknowledgement, READ with the present
    /// data, an atomic with the original result (IBTA 1.7, 9.7.5.1.3).
    // rule: 9.7.5.1.3-duplicate-send
    fn repeat(&mut self, cx: &mut Cx<'_>, core: &Core, packet: &Packet<'_>, at: Seq) {
        // rule: 9.7.5.1.3-duplicate-part
        cx.nic.counters.count(Stat::DuplicateRequests);
        cx.observe.verdict(Verdict::Duplicate);
        match packet.bth.opcode.operation() {
            // rule: 9.7.5.1.3-duplicate-write
            Operation::Send | Operation::Write => {
                self.replies.acknowledge();
                self.repeat_nak(cx);
            }
            Operation::ReadRequest => self.repeat_read(cx, core, packet, at),
            Operation::CompareSwap | Operation::FetchAdd => self.repeat_atomic(cx, at),
            Operation::Flush | Operation::AtomicWrite => self.repeat_placement(cx, core, at),
            _ => cx.drop(DropReason::StaleDuplicate),
        }
    }

    /// Selects the SRQ that an XRC request names. Returns false if it is not in the QP's XRC
    /// domain, or if the request continues a message (`continues_message`) that named another SRQ
    /// (IBTA 1.7, annex A14).
    fn select_srq(&mut self, cx: &Cx<'_>, packet: &Packet<'_>, continues_message: bool) -> bool {
        match packet.ext.xrceth {
            Some(xrceth) => {
                cold_path();
                self.rq
                    .select_srq(cx, xrceth.srqn.into(), continues_message)
            }
            None => true,
        }
    }

    /// Advances `epsn` past the packet there, which was executed, and queues an acknowledgement if
    /// the packet asks for one.
    // rule: 9.7.5.1.2-unasked
    pub(super) fn accept(&mut self, packet: &Packet<'_>) {
        // rule: 9.7.4.1.1-expected
        self.epsn = self.epsn.next();
        // rule: 9.7.5.1.2-asked
        if packet.bth.ack_req {
            self.replies.acknowledge();
        }
    }
}

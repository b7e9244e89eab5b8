//! READ and atomics: executes them, and saves them to answer duplicates.

use super::reply_queue::Reply;
use super::{Denial, Refusal, Responder, cause};
use crate::cause::Cause;
use crate::counters::DropReason;
use crate::memory::{Access, AccessError, PdId};
use crate::qp::{Core, Cx};
use crate::seq::Seq;
use crate::wr::MAX_MESSAGE_BYTES;
use roce_wire::{AtomicEth, Operation, Packet, Qpn, Reth};
use std::collections::VecDeque;

/// Responder resources (IBTA 1.7, 9.7.4.1.2 and 9.7.5.1.3): the last READs and atomics, as many as
/// the peer may have outstanding.
#[derive(Debug, Default)]
pub(super) struct Resources {
    done: VecDeque<Done>,
    max: usize,
}

/// A request that was executed.
#[derive(Clone, Copy, Debug)]
struct Done {
    first: Seq,
    last: Seq,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// With the protection domain in which it was allowed.
    Read {
        reth: Reth,
        pd: PdId,
    },
    Atomic {
        original: u64,
    },
    /// A FLUSH or ATOMIC WRITE.
    Placement,
}

impl Resources {
    pub(super) fn new(max: u8) -> Self {
        Self {
            done: VecDeque::new(),
            max: usize::from(max),
        }
    }

    /// Changes the number of requests that are kept.
    pub(super) fn set_max(&mut self, max: u8) {
        self.max = usize::from(max);
    }

    fn note(&mut self, done: Done) {
        // rule: 9.7.5.1.3-kept
        while self.done.len() >= self.max.max(1) {
            self.done.pop_front();
        }
        self.done.push_back(done);
    }

    /// The READs and atomics that directly precede `end`, without another request in between: the
    /// PSN of the first, and their number. Returns `end` and 0 if the last request was of another
    /// kind.
    pub(super) fn run_before(&self, end: Seq) -> (Seq, u32) {
        let newest_first = self.done.iter().rev();
        newest_first.fold((end, 0), |(at, count), done| {
            if done.last.next() == at {
                (done.first, count + 1)
            } else {
                (at, count)
            }
        })
    }

    /// Notes that the FLUSH or ATOMIC WRITE at `at` was executed.
    pub(super) fn note_placement(&mut self, at: Seq) {
        self.note(Done {
            first: at,
            last: at,
            what: What::Placement,
        });
    }

    /// Whether the request at `at` is a noted FLUSH or ATOMIC WRITE.
    pub(super) fn was_placement(&self, at: Seq) -> bool {
        self.find(at)
            .is_some_and(|done| matches!(done.what, What::Placement))
    }

    fn find(&self, at: Seq) -> Option<Done> {
        self.done
            .iter()
            .rev()
            .find(|done| done.first <= at && at <= done.last)
            .copied()
    }
}

/// The number of PSNs that a READ of `len` bytes owns (IBTA 1.7, 9.7.3.1).
// rule: 9.7.3.1-read-psns
fn response_packets(len: u32, mtu: usize) -> u64 {
    u64::from(len).div_ceil(mtu as u64).max(1)
}

impl Responder {
    /// Executes a READ request.
    // rule: 9.4.4-read
    pub(super) fn execute_read(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        let Some(reth) = packet.ext.reth else {
            return Err(cause::unsupported(cx, packet));
        };
        // rule: 9.7.4.1.3-read-enabled
        let enabled = core.config.access.contains(Access::REMOTE_READ);
        // rule: 9.7.4.1-longest-write
        let too_long = u64::from(reth.dma_len) > MAX_MESSAGE_BYTES;
        // rule: 9.7.4.1.2-fetch-outside
        if self.inbound.is_some() || !enabled || too_long || !self.replies.has_room() {
            let (opcode, len) = (packet.bth.opcode, reth.dma_len);
            let too_long = Cause::TooLong { opcode, len };
            return Err(self.invalid_fetch(cx, core, packet, Access::REMOTE_READ, too_long));
        }
        let pd = self.rq.remote_pd(core);
        if let Err(error) = check_read(cx, pd, core.qpn, &reth) {
            let access = (reth.rkey, reth.va, u64::from(reth.dma_len));
            cause::name_denied(cx, packet.bth.opcode, access, Access::REMOTE_READ, error);
            return Err(Refusal::AccessError.into());
        }
        let first = self.epsn;
        let end = first + response_packets(reth.dma_len, core.config.mtu());
        // rule: 9.7.4.1.1-after-read
        self.epsn = end;
        // rule: 9.7.7.1-msn-fetch
        self.count_message();
        self.resources.note(Done {
            first,
            last: end.prev(),
            what: What::Read { reth, pd },
        });
        self.replies.push(Reply::Read {
            at: first,
            end,
            pd,
            reth,
            offset: 0,
            msn: self.msn,
        });
        Ok(())
    }

    /// Executes an atomic, exactly once.
    pub(super) fn execute_atomic(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
    ) -> Result<(), Denial> {
        let Some(atomic) = packet.ext.atomic else {
            return Err(cause::unsupported(cx, packet));
        };
        // rule: 9.7.4.1.3-atomic-enabled
        let enabled = core.config.access.contains(Access::REMOTE_ATOMIC);
        // rule: 9.4.5-aligned
        let aligned = atomic.va % 8 == 0;
        // rule: 9.7.4.1.2-fetch-outside
        if self.inbound.is_some() || !enabled || !aligned || !self.replies.has_room() {
            let misaligned = Cause::Misaligned {
                opcode: packet.bth.opcode,
                addr: atomic.va,
            };
            return Err(self.invalid_fetch(cx, core, packet, Access::REMOTE_ATOMIC, misaligned));
        }
        let (pd, operation) = (self.rq.remote_pd(core), packet.bth.opcode.operation());
        let performed = perform(cx, (pd, core.qpn), operation, &atomic);
        let Ok(original) = performed else {
            let access = (atomic.rkey, atomic.va, 8);
            let error = performed.err().unwrap_or(AccessError::Fault);
            cause::name_denied(cx, packet.bth.opcode, access, Access::REMOTE_ATOMIC, error);
            return Err(Refusal::AccessError.into());
        };
        let at = self.epsn;
        self.epsn = at.next();
        self.count_message();
        self.resources.note(Done {
            first: at,
            last: at,
            what: What::Atomic { original },
        });
        // rule: 9.7.5.1.1-atomic-psn
        self.replies.push(Reply::Atomic {
            at,
            original,
            msn: self.msn,
        });
        Ok(())
    }

    /// Answers a duplicate READ, or the rest of one that the peer requests after a loss, with the
    /// present contents of memory.
    // rule: 9.7.5.1.3-duplicate-read
    pub(super) fn repeat_read(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        at: Seq,
    ) {
        let noted = self.resources.find(at);
        let (
            Some(Done {
                first,
                last,
                what: What::Read { reth: original, pd },
            }),
            Some(reth),
        ) = (noted, packet.ext.reth)
        else {
            cx.drop(DropReason::StaleDuplicate);
            return;
        };
        // rule: 9.7.5.1.3-duplicate-read-rest
        let skipped = (at - first) * core.config.mtu() as u64;
        let end = at + response_packets(reth.dma_len, core.config.mtu());
        // rule: 9.7.5.1.3-duplicate-read-within
        let within = reth.va == original.va.wrapping_add(skipped)
            && reth.rkey == original.rkey
            && skipped + u64::from(reth.dma_len) <= u64::from(original.dma_len)
            && end <= last.next();
        // rule: 9.7.5.1.3-duplicate-read-checked
        if !within || check_read(cx, pd, core.qpn, &reth).is_err() {
            cx.drop(DropReason::StaleDuplicate);
            return;
        }
        let reply = Reply::Read {
            at,
            end,
            pd,
            reth,
            offset: 0,
            msn: self.msn,
        };
        if !self.replies.repeat(reply) {
            cx.drop(DropReason::StaleDuplicate);
        }
    }

    /// Answers a duplicate atomic.
    // rule: 9.4.5-once
    pub(super) fn repeat_atomic(&mut self, cx: &mut Cx<'_>, at: Seq) {
        // rule: 9.7.5.1.3-duplicate-atomic
        let reply = match self.resources.find(at).map(|done| done.what) {
            Some(What::Atomic { original }) => Reply::Atomic {
                at,
                original,
                msn: self.msn,
            },
            // rule: 9.7.5.1.3-stale
            _ => return cx.drop(DropReason::StaleDuplicate),
        };
        if !self.replies.repeat(reply) {
            cx.drop(DropReason::StaleDuplicate);
        }
    }
}

/// Checks that the peer may read the bytes. A READ of no bytes needs no key (IBTA 1.7, 9.7.4.1.5).
fn check_read(cx: &Cx<'_>, pd: PdId, qpn: Qpn, reth: &Reth) -> Result<(), AccessError> {
    // rule: 9.7.4.1-no-bytes-no-key
    if reth.dma_len > 0 {
        let len = u64::from(reth.dma_len);
        let rights = Access::REMOTE_READ;
        cx.nic
            .memory
            .remote(pd, qpn, reth.rkey, reth.va, len, rights)?;
    }
    Ok(())
}

/// Executes an atomic; returns the previous value.
fn perform(
    cx: &Cx<'_>,
    (pd, qpn): (PdId, Qpn),
    operation: Operation,
    atomic: &AtomicEth,
) -> Result<u64, AccessError> {
    let rights = Access::REMOTE_ATOMIC;
    let target = cx
        .nic
        .memory
        .remote(pd, qpn, atomic.rkey, atomic.va, 8, rights)?;
    let original = match operation {
        Operation::CompareSwap => target.compare_swap(atomic.compare, atomic.swap_or_add),
        _ => target.fetch_add(atomic.swap_or_add),
    };
    original.ok_or(AccessError::Fault)
}

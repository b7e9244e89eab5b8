//! Receives of pools: identifies the message that arrived, and checks that it may.

use super::flow::Arrivals;
use super::pair::Pair;
use super::pool::Pool;
use super::request::{Effect, PostedRecv};
use super::{AreaName, Verdict, Violation, judge, violated};
use crate::connect::header_bytes;
use roce_stack::{Completion, QpKind, WcOpcode, WcStatus};

/// The maximum number of copies of one message, if three links duplicate packets.
pub(super) const MAX_COPIES: u8 = 8;

impl Pair {
    pub(super) fn is_reliable(&self) -> bool {
        !matches!(self.ends.kind, QpKind::Uc | QpKind::Ud)
    }

    /// Length of the header in front of each received message, in bytes.
    pub(super) fn header_bytes(&self) -> usize {
        header_bytes(self.ends.kind)
    }

    /// The number of `side`'s messages that may still need a receive.
    pub(super) fn unresolved(&self, side: usize) -> usize {
        let flow = &self.flows[side];
        flow.consuming.len() - flow.arrivals.resolved
    }

    /// The memory of a pool was deregistered.
    pub(super) fn pool_deregistered(&mut self, pool: usize) {
        for side in [0, 1] {
            if self.ends.pools_of(side).any(|it| it == pool) {
                self.qps[side].may_be_broken = true;
                self.flows[1 - side].mark_deregistered(AreaName::Inbox);
            }
        }
    }

    /// A receive of `side` has completed.
    pub(super) fn pool_recv_completed(
        &mut self,
        (number, pool): (usize, &mut Pool),
        side: usize,
        done: &Completion,
    ) -> Verdict {
        if self.qps[side].last_wqe {
            return violated("the NIC reported that the QP takes no more receives".to_owned());
        }
        let flow = &mut self.flows[1 - side];
        let last = flow.arrivals.last.get(&number).copied();
        let recv = pool.take(done.wr_id, last)?;
        flow.arrivals.last.insert(number, done.wr_id);
        let n = match (self.is_reliable(), done.status) {
            (true, _) => Some(self.flows[1 - side].received),
            (false, WcStatus::Success) => Some(self.find_message(pool, side, recv, done)?),
            (false, _) => None,
        };
        let flow = &mut self.flows[1 - side];
        flow.received += 1;
        let send = n.and_then(|n| flow.consuming.get(n).copied());
        let named = send.and_then(|send| flow.sends[send].pool);
        if named.is_some_and(|named| named != number) {
            return violated(format!("it is of pool {number}, but {named:?} was named"));
        }
        judge::recv(self, side, send, done)?;
        let flow = &mut self.flows[1 - side];
        let (Some(n), Some(id), WcStatus::Success) = (n, send, done.status) else {
            pool.settle(done.wr_id);
            flow.recv_failed = true;
            self.qps[side].may_be_broken = true;
            return Ok(());
        };
        if flow.recv_failed {
            return violated("a receive succeeded after one that failed".to_owned());
        }
        flow.arrivals.record(n);
        self.check_landed(pool, side, id, recv)?;
        pool.settle(done.wr_id);
        let causes = self.causes;
        let flow = &mut self.flows[1 - side];
        match self.ends.kind {
            QpKind::Ud => Ok(()),
            QpKind::Uc if causes.duplicates || causes.reorders => Ok(()),
            QpKind::Uc => flow.write_arrived(id),
            _ => flow.executed_through(id),
        }
    }

    /// Checks the contents of a receive that request `id` consumed.
    fn check_landed(&self, pool: &Pool, side: usize, id: usize, recv: PostedRecv) -> Verdict {
        let (bytes, header): (&[u8], usize) = match &self.flows[1 - side].sends[id].effect {
            Effect::Send { bytes, .. } => (bytes, self.header_bytes()),
            _ => (&[], 0),
        };
        if !pool.holds(recv, header, bytes) {
            return violated(format!("the receive does not hold what request {id} sent"));
        }
        let network = self.ends.networks[1 - side];
        if header > 0 && network.is_some_and(|network| !pool.has_header(recv, &network)) {
            return violated(format!("the receive lacks the header of {network:?}"));
        }
        // Without acknowledgements, an incomplete message may have left some bytes there.
        if self.is_reliable() && !pool.is_unchanged_after(recv, header + bytes.len()) {
            return violated(format!("the receive holds more than request {id} sent"));
        }
        Ok(())
    }

    /// Identifies the message: the oldest one that matches and may arrive now.
    fn find_message(
        &self,
        pool: &Pool,
        side: usize,
        recv: PostedRecv,
        done: &Completion,
    ) -> Result<usize, Violation> {
        let flow = &self.flows[1 - side];
        let Arrivals {
            counts, resolved, ..
        } = &flow.arrivals;
        let max_copies = match self.causes.duplicates {
            true => MAX_COPIES,
            false => 1,
        };
        let from = match (self.causes.reorders, self.causes.duplicates) {
            (true, _) => 0,
            (false, true) => resolved.saturating_sub(1),
            (false, false) => *resolved,
        };
        let is_candidate = |n: &usize| {
            let send = &flow.sends[flow.consuming[*n]];
            if send.fails || counts[*n] >= max_copies {
                return false;
            }
            match (&send.effect, done.opcode) {
                (Effect::Send { bytes, imm }, WcOpcode::Recv) => {
                    let len = bytes.len() + self.header_bytes();
                    (*imm, len as u32) == (done.imm, done.byte_len)
                        && pool.holds(recv, self.header_bytes(), bytes)
                }
                (Effect::Write { imm, .. }, WcOpcode::RecvRdmaWithImm) => *imm == done.imm,
                _ => false,
            }
        };
        match (from..counts.len()).find(is_candidate) {
            Some(n) => Ok(n),
            None => violated(format!(
                "no message from number {from} on, of {}, matches",
                counts.len()
            )),
        }
    }

    /// Checks an idle network: every message must have arrived, unless there is a reason why it may
    /// be missing.
    pub(super) fn check_all_arrived(&mut self, side: usize) -> Verdict {
        let (own, peer) = (self.qps[side], self.qps[1 - side]);
        let unreliable = !self.is_reliable();
        let flow = &mut self.flows[side];
        let may_be_missing = own.destroyed
            || flow.send_failed
            || peer.destroyed
            || peer.may_be_broken
            || flow.is_deregistered(AreaName::Inbox)
            || flow.is_deregistered(AreaName::Target);
        if !unreliable || self.causes.lossy || may_be_missing {
            return Ok(());
        }
        if let Some(n) = flow.arrivals.missing() {
            let id = flow.consuming[n];
            return violated(format!("request {id} can't be lost, but never arrived"));
        }
        flow.settle_writes();
        Ok(())
    }
}

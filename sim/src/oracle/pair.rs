//! Two connected QPs, and the completions of each.

use super::flow::{Fetched, Flow};
use super::{FlowAreas, Verdict, Violation, judge, violated};
use roce_stack::{Completion, QpKind, WcStatus};

/// What is known of one QP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QpModel {
    /// There is a cause for it to be in the error state.
    pub(crate) may_be_broken: bool,
    /// It was destroyed, with its host or without.
    pub(crate) gone: bool,
    /// SQD was entered, and the NIC told that it has drained.
    pub(crate) drained: bool,
    /// The NIC told that it takes no more receives from its SRQ.
    pub(crate) last_wqe: bool,
}

/// Causes for failure that lie outside of the QPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Packets may be lost, or come so late that they count as lost.
    pub lossy: bool,
    /// The retries after RNR NAK are limited.
    pub rnr_limited: bool,
    /// Packets may come twice.
    pub doubles: bool,
    /// Packets may overtake each other.
    pub overtakes: bool,
}

/// What two QPs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Their transport service.
    pub kind: QpKind,
    /// Their numbers.
    pub qpns: [u32; 2],
    /// The pools that they take receives from; without one, receives are posted to the
    /// QP and match the peer's requests one by one.
    pub pools: [Option<usize>; 2],
    /// Another that the second end takes receives from: requests say from which.
    pub more: Option<usize>,
}

impl Ends {
    /// The pools that an end takes receives from.
    pub(super) fn pools_of(&self, side: usize) -> impl Iterator<Item = usize> {
        let more = self.more.filter(|_| side == 1);
        self.pools[side].into_iter().chain(more)
    }
}

/// Two connected QPs, and what flows each way.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) causes: Causes,
    pub(crate) ends: Ends,
    pub(crate) qps: [QpModel; 2],
    /// By the side that initiates.
    pub(crate) flows: [Flow; 2],
}

impl Pair {
    /// A send request of `side` has completed. Returns what atomics fetched.
    pub(super) fn send_completed(
        &mut self,
        side: usize,
        done: &Completion,
    ) -> Result<Vec<Fetched>, Violation> {
        let mut fetched = Vec::new();
        let flow = &mut self.flows[side];
        let id = usize::try_from(done.wr_id).unwrap_or(usize::MAX);
        if id < flow.next || id >= flow.sends.len() {
            return violated(format!(
                "a completion for request {id}, but {} to {} are outstanding",
                flow.next,
                flow.sends.len()
            ));
        }
        // What comes before it and asked for no completion has succeeded.
        for before in flow.next..id {
            if flow.sends[before].signaled || flow.send_failed {
                return violated(format!("request {before} has not completed yet"));
            }
            fetched.extend(flow.succeed(before)?);
        }
        for before in flow.next..id {
            self.local_done(side, before);
        }
        self.flows[side].next = id + 1;
        judge::send(self, side, id, done)?;
        let reliable = self.is_reliable();
        let flow = &mut self.flows[side];
        if done.status == WcStatus::Success {
            fetched.extend(flow.succeed(id)?);
            self.local_done(side, id);
        } else {
            flow.fail(id);
            // Without acknowledgements, receiving goes on.
            self.qps[side].may_be_broken |= reliable;
        }
        Ok(fetched)
    }

    /// A receive of `side` has completed.
    pub(super) fn recv_completed(&mut self, side: usize, done: &Completion) -> Verdict {
        let n = self.flows[1 - side].received;
        let flow = &mut self.flows[1 - side];
        let Some(recv) = flow.recvs.get(n).copied() else {
            return violated("a receive completed that was not posted".to_owned());
        };
        if done.wr_id != n as u64 {
            return violated(format!("receive {} completed instead of {n}", done.wr_id));
        }
        flow.received += 1;
        let send = flow.consuming.get(n).copied();
        judge::recv(self, side, send, done)?;
        let flow = &mut self.flows[1 - side];
        if done.status != WcStatus::Success {
            flow.recv_failed = true;
            self.qps[side].may_be_broken = true;
            return Ok(());
        }
        if flow.recv_failed {
            return violated("a receive succeeded after one that failed".to_owned());
        }
        if let Some(send) = send {
            flow.executed_through(send)?;
        }
        flow.areas.inbox.settle(n);
        flow.areas
            .inbox
            .check(recv.at..recv.at + recv.len)
            .map_err(|Violation(what)| Violation(format!("receive {n}: {what}")))
    }

    /// Nothing moves any more.
    pub(super) fn at_rest(&mut self, side: usize, queued: Option<(usize, usize)>) -> Verdict {
        if let Some((sends, receives)) = queued {
            let flow = &mut self.flows[side];
            for id in flow.next..flow.sends.len() {
                if flow.sends[id].signaled || flow.send_failed {
                    return violated(format!("request {id} never completed"));
                }
                // An atomic's result was not asked for; it may stay unknown.
                flow.succeed(id)?;
            }
            let tail = flow.next..flow.sends.len();
            flow.next = tail.end;
            tail.for_each(|id| self.local_done(side, id));
            let posted = match self.ends.pools[side] {
                // The pool knows.
                Some(_) => receives,
                None => self.flows[1 - side].outstanding_recvs(),
            };
            if sends != 0 || receives != posted {
                return violated(format!(
                    "{sends} sends and {receives} receives are queued, but should be 0 and {posted}"
                ));
            }
        }
        self.all_arrived(side)?;
        let FlowAreas { out, target, inbox } = &self.flows[side].areas;
        for (name, area) in [("out", out), ("target", target), ("inbox", inbox)] {
            area.check_all()
                .map_err(|Violation(what)| Violation(format!("{name}: {what}")))?;
        }
        Ok(())
    }
}

//! Completions of two connected QPs.

use super::flow::Fetched;
use super::pair::Pair;
use super::{FlowAreas, Verdict, Violation, about, judge, violated};
use roce_stack::{Completion, WcStatus};

impl Pair {
    /// Handles the completion of a send request of `side`. Returns the values that atomics fetched.
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
        // Earlier unsignaled requests have succeeded.
        for before in flow.next..id {
            if flow.sends[before].signaled || flow.send_failed {
                return violated(format!("request {before} has not completed yet"));
            }
            fetched.extend(flow.succeed(before)?);
        }
        for before in flow.next..id {
            self.key_request_completed(side, before);
        }
        self.flows[side].next = id + 1;
        judge::send(self, side, id, done)?;
        let reliable = self.is_reliable();
        let flow = &mut self.flows[side];
        if done.status == WcStatus::Success {
            fetched.extend(flow.succeed(id)?);
            self.key_request_completed(side, id);
        } else {
            flow.fail(id);
            // Without acknowledgements, receives still work.
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
            .map_err(about(format_args!("receive {n}")))
    }

    /// Checks that everything is finished when the network is idle.
    pub(super) fn check_idle(&mut self, side: usize, queued: Option<(usize, usize)>) -> Verdict {
        if let Some((sends, receives)) = queued {
            let flow = &mut self.flows[side];
            for id in flow.next..flow.sends.len() {
                if flow.sends[id].signaled || flow.send_failed {
                    return violated(format!("request {id} never completed"));
                }
                // The result of an atomic without a completion may stay unknown.
                flow.succeed(id)?;
            }
            let tail = flow.next..flow.sends.len();
            flow.next = tail.end;
            tail.for_each(|id| self.key_request_completed(side, id));
            let posted = match self.ends.pools[side] {
                // `Pool::at_rest` checks the receives of a pool.
                Some(_) => receives,
                None => self.flows[1 - side].outstanding_recvs(),
            };
            if sends != 0 || receives != posted {
                return violated(format!(
                    "{sends} sends and {receives} receives are queued, but should be 0 and {posted}"
                ));
            }
        }
        self.check_all_arrived(side)?;
        for old in &self.flows[side].retired {
            old.check_all().map_err(about("old target"))?;
        }
        let FlowAreas { out, target, inbox } = &self.flows[side].areas;
        for (name, area) in [("out", out), ("target", target), ("inbox", inbox)] {
            area.check_all().map_err(about(name))?;
        }
        Ok(())
    }
}

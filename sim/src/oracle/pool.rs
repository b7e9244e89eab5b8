//! Receives of a shared receive queue, or of a service that loses messages. Which message a receive
//! gets is known only when the receive completes.

use super::area::{Area, Content};
use super::request::PostedRecv;
use super::{Verdict, Violation, violated};
use std::collections::BTreeMap;

/// The receives of one queue.
#[derive(Debug)]
pub(crate) struct Pool {
    area: Area,
    /// Whether many QPs use it.
    pub(super) shared: bool,
    posted: BTreeMap<u64, PostedRecv>,
    /// The most receives that destroyed QPs may have taken.
    taken_away: usize,
    /// Whether its memory was deregistered.
    pub(super) gone: bool,
    /// The limit of the requested event.
    limit: Option<usize>,
}

impl Pool {
    pub(super) fn new(area: Area, shared: bool) -> Self {
        Self {
            area,
            shared,
            posted: BTreeMap::new(),
            taken_away: 0,
            gone: false,
            limit: None,
        }
    }

    /// The number of receives that have not completed.
    pub(super) fn outstanding(&self) -> usize {
        self.posted.len()
    }

    pub(super) fn post(&mut self, wr_id: u64, recv: PostedRecv) {
        self.area
            .begin(wr_id as usize, recv.at, Content::Anything(recv.len));
        self.posted.insert(wr_id, recv);
    }

    /// A receive has completed for a QP whose previous one was `after`.
    pub(super) fn take(&mut self, wr_id: u64, after: Option<u64>) -> Result<PostedRecv, Violation> {
        let first = self.posted.keys().next().copied();
        let Some(recv) = self.posted.remove(&wr_id) else {
            return violated(format!("receive {wr_id} was not posted, or has completed"));
        };
        if !self.shared && first != Some(wr_id) {
            return violated(format!(
                "receive {wr_id} completed, but the oldest is {first:?}"
            ));
        }
        if after.is_some_and(|after| wr_id < after) {
            return violated(format!(
                "receive {wr_id} completed after {after:?}, which was posted later"
            ));
        }
        Ok(recv)
    }

    /// Whether the receive holds these bytes, after `header` bytes.
    pub(super) fn holds(&self, recv: PostedRecv, header: usize, bytes: &[u8]) -> bool {
        let from = recv.at + header;
        let to = from + bytes.len();
        to <= recv.at + recv.len && self.area.actual(from..to) == bytes
    }

    /// Whether the receive is unchanged after its first `len` bytes.
    pub(super) fn is_untouched_behind(&self, recv: PostedRecv, len: usize) -> bool {
        let rest = recv.at + len.min(recv.len)..recv.at + recv.len;
        self.area.is_frozen() || self.area.actual(rest.clone()) == self.area.image(rest)
    }

    /// The contents of the receive are final.
    pub(super) fn settle(&mut self, wr_id: u64) {
        self.area.settle(wr_id as usize);
    }

    /// A QP that uses the pool was destroyed, and may have taken a receive with it. If the pool is
    /// not shared, all receives are gone.
    pub(super) fn user_left(&mut self) -> Verdict {
        if self.shared {
            self.taken_away += 1;
            return Ok(());
        }
        self.freeze()
    }

    pub(super) fn may_be_held(&mut self, receives: usize) {
        self.taken_away += receives;
    }

    /// Nothing accesses the memory from now on, and nothing completes.
    pub(super) fn close(&mut self) -> Verdict {
        self.posted.clear();
        self.limit = None;
        self.freeze()
    }

    /// Nothing accesses the memory from now on.
    pub(super) fn freeze(&mut self) -> Verdict {
        self.area
            .freeze()
            .map_err(|Violation(what)| Violation(format!("receives: {what}")))
    }

    /// Requests an event when fewer than `limit` are left; 0 for none.
    pub(super) fn arm(&mut self, limit: usize) {
        self.limit = (limit > 0).then_some(limit);
    }

    /// The event was delivered.
    pub(super) fn limit_reached(&mut self) -> Verdict {
        match self.limit.take() {
            Some(_) => Ok(()),
            None => violated("a limit was reached that nobody had set".to_owned()),
        }
    }

    /// Nothing moves any more: `posted` receives are in the queue, `held` are with QPs.
    pub(super) fn at_rest(&self, posted: usize, held: usize) -> Verdict {
        let there = posted + held;
        if !(there..=there + self.taken_away).contains(&self.outstanding()) {
            return violated(format!(
                "{posted} receives are posted and {held} with QPs, but {} have not completed",
                self.outstanding()
            ));
        }
        if self.limit.is_some_and(|limit| posted < limit) {
            return violated(format!(
                "{posted} receives are fewer than the limit, {:?}, but nobody was told",
                self.limit
            ));
        }
        self.area
            .check_all()
            .map_err(|Violation(what)| Violation(format!("receives: {what}")))
    }
}

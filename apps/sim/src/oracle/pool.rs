//! Receives of a shared receive queue, or of a service that loses messages. Which message a receive
//! gets is known only when the receive completes.

use super::area::{Area, Content};
use super::datagram::{HEADER_BYTES, Network};
use super::request::PostedRecv;
use super::{Verdict, Violation, about, violated};
use std::collections::BTreeMap;

/// The receives of one queue.
#[derive(Debug)]
pub(crate) struct Pool {
    area: Area,
    /// Whether many QPs use the pool.
    pub(super) shared: bool,
    posted: BTreeMap<u64, PostedRecv>,
    /// The maximum number of receives that destroyed QPs may have held.
    lost_with_qps: usize,
    /// Whether the pool's memory was deregistered.
    pub(super) deregistered: bool,
    /// The limit of the requested event.
    limit: Option<usize>,
}

impl Pool {
    pub(super) fn new(area: Area, shared: bool) -> Self {
        Self {
            area,
            shared,
            posted: BTreeMap::new(),
            lost_with_qps: 0,
            deregistered: false,
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

    /// Whether the receive begins with the header of a datagram.
    pub(super) fn has_header(&self, recv: PostedRecv, network: &Network) -> bool {
        network.has_header(&self.area.actual(recv.at..recv.at + HEADER_BYTES))
    }

    /// Whether the receive is unchanged after its first `len` bytes.
    pub(super) fn is_unchanged_after(&self, recv: PostedRecv, len: usize) -> bool {
        let rest = recv.at + len.min(recv.len)..recv.at + recv.len;
        self.area.is_frozen() || self.area.actual(rest.clone()) == self.area.image(rest)
    }

    /// The contents of the receive are final.
    pub(super) fn settle(&mut self, wr_id: u64) {
        self.area.settle(wr_id as usize);
    }

    /// A QP that uses the pool was destroyed, and may have held a receive. If the pool is not
    /// shared, all its receives are destroyed, too.
    pub(super) fn user_destroyed(&mut self) -> Verdict {
        if self.shared {
            self.lost_with_qps += 1;
            return Ok(());
        }
        self.freeze()
    }

    pub(super) fn may_be_held(&mut self, receives: usize) {
        self.lost_with_qps += receives;
    }

    /// Nothing accesses the memory from now on, and nothing completes.
    pub(super) fn close(&mut self) -> Verdict {
        self.posted.clear();
        self.limit = None;
        self.freeze()
    }

    /// Nothing accesses the memory from now on.
    pub(super) fn freeze(&mut self) -> Verdict {
        self.area.freeze().map_err(about("receives"))
    }

    /// Requests an event when fewer than `limit` are left; 0 for none.
    pub(super) fn arm(&mut self, limit: usize) {
        self.limit = (limit > 0).then_some(limit);
    }

    /// The event was delivered.
    pub(super) fn limit_reached(&mut self) -> Verdict {
        match self.limit.take() {
            Some(_) => Ok(()),
            None => violated("a limit event without a limit".to_owned()),
        }
    }

    /// Checks an idle network: `posted` receives are in the queue, and QPs hold `held`.
    pub(super) fn check_idle(&self, posted: usize, held: usize) -> Verdict {
        let accounted = posted + held;
        if !(accounted..=accounted + self.lost_with_qps).contains(&self.outstanding()) {
            return violated(format!(
                "{posted} receives are posted and {held} with QPs, but {} have not completed",
                self.outstanding()
            ));
        }
        if self.limit.is_some_and(|limit| posted < limit) {
            return violated(format!(
                "{posted} receives are fewer than the limit, {:?}, but there was no event",
                self.limit
            ));
        }
        self.area.check_all().map_err(about("receives"))
    }
}

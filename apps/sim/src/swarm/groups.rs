//! The state of multicast groups: the QPs that join them, and those that send to them.

use super::memory::Region;
use crate::fabric::HostId;
use roce_stack::{CompletionQueue, Instant};
use roce_wire::Qpn;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The QPs of the plan's multicast groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) members: Vec<Member>,
    pub(super) senders: Vec<Sender>,
}

/// A QP, and its CQ.
#[derive(Debug)]
pub(super) struct DatagramQp {
    pub(super) host: HostId,
    pub(super) qpn: Qpn,
    pub(super) cq: Arc<CompletionQueue>,
    pub(super) region: Region,
    /// Whether it is neither destroyed nor lost in a restart.
    pub(super) alive: bool,
}

/// A QP that joins groups.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) qp: DatagramQp,
    /// The length of each receive.
    pub(super) len: usize,
    /// The number of the next receive.
    pub(super) next: u64,
    pub(super) refill_at: Instant,
    /// The memberships that have ended.
    pub(super) left: BTreeSet<usize>,
}

/// A QP that sends to groups.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) qp: DatagramQp,
    /// The offset of each datagram in its region.
    pub(super) at: Vec<usize>,
    pub(super) posted: usize,
    pub(super) completed: u64,
    pub(super) send_at: Instant,
}

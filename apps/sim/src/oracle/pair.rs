//! Two connected QPs, their states, and their flows.

use super::datagram::Network;
use super::flow::Flow;
use super::rates::{Bucket, SeenCnps};
use roce_stack::QpKind;

/// The state of one QP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QpModel {
    /// Whether the QP may be in the error state.
    pub(crate) may_be_broken: bool,
    /// Whether the QP was destroyed, alone or by a restart of its host.
    pub(crate) destroyed: bool,
    /// Whether SQD was entered and the NIC reported that the queue has drained.
    pub(crate) drained: bool,
    /// Whether the NIC reported that it takes no more receives from its SRQ.
    pub(crate) last_wqe: bool,
}

/// Causes of failure outside the QPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// Packets may be lost, or arrive so late that they count as lost.
    pub lossy: bool,
    /// The retries after RNR NAK are limited.
    pub rnr_limited: bool,
    /// Packets may be duplicated.
    pub duplicates: bool,
    /// Packets may arrive out of order.
    pub reorders: bool,
    /// Packets of an earlier pair may arrive: an end has the number of one of its QPs.
    pub numbers_again: bool,
}

/// The ends of a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Their transport service.
    pub kind: QpKind,
    /// Their numbers.
    pub qpns: [u32; 2],
    /// The pools that they take receives from. Without one, receives are posted to the QP and match
    /// the peer's requests one by one.
    pub pools: [Option<usize>; 2],
    /// A second pool of the second end. Each request names one of the two.
    pub second_pool: Option<usize>,
    /// The network layer of the messages of each end; `None` if it is not checked.
    pub networks: [Option<Network>; 2],
}

impl Ends {
    /// The pools that an end takes receives from.
    pub(super) fn pools_of(&self, side: usize) -> impl Iterator<Item = usize> {
        let second_pool = self.second_pool.filter(|_| side == 1);
        self.pools[side].into_iter().chain(second_pool)
    }
}

/// Two connected QPs, and their flows.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) causes: Causes,
    pub(crate) ends: Ends,
    pub(crate) qps: [QpModel; 2],
    /// Indexed by the initiating side.
    pub(crate) flows: [Flow; 2],
    /// Of QPs whose rate is limited.
    pub(crate) buckets: [Option<Bucket>; 2],
    /// The CNPs that each QP has sent.
    pub(crate) cnps: [SeenCnps; 2],
}

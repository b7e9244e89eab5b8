//! Two connected QPs, and the completions of each.

use super::flow::Flow;
use roce_stack::QpKind;

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

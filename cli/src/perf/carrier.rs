//! What carried the packets of an end: datapath, memory, and the port's own counts.

use roce_verbs::Context;
use roce_verbs::datapath::{Datapath, DatapathKind, XdpQueue};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What carried the packets of an end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Carrier {
    /// `udp` or `xdp`.
    datapath: &'static str,
    /// With AF_XDP, whether the driver read and wrote frames in our memory, as the
    /// sockets themselves answer.
    zero_copy: Option<bool>,
    /// What the port has counted: with AF_XDP its rings' and the kernel's counts, too.
    port_counters: BTreeMap<&'static str, u64>,
    /// With AF_XDP, the same of each queue.
    xdp_queues: Vec<Queue>,
}

/// A queue that AF_XDP uses.
#[derive(Clone, Debug, Serialize)]
struct Queue {
    number: u32,
    zero_copy: bool,
    shares_memory: bool,
    counters: BTreeMap<&'static str, u64>,
}

impl From<XdpQueue> for Queue {
    fn from(queue: XdpQueue) -> Self {
        Self {
            number: queue.number,
            zero_copy: queue.zero_copy,
            shares_memory: queue.shares_memory,
            counters: queue.counters.into_iter().collect(),
        }
    }
}

impl Carrier {
    /// What carries a device's packets, with the counts of now.
    pub(super) fn of(context: &Context) -> Self {
        let datapath = context.datapath();
        Self {
            datapath: datapath.map_or("idle", Datapath::name),
            zero_copy: datapath.and_then(|datapath| match datapath.kind {
                DatapathKind::Xdp { zero_copy, .. } => zero_copy,
                DatapathKind::Udp { .. } => None,
            }),
            port_counters: context.port_counters().into_iter().collect(),
            xdp_queues: context.xdp_queues().into_iter().map(Queue::from).collect(),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.datapath, self.zero_copy) {
            ("xdp", Some(true)) => "AF_XDP with zero-copy",
            ("xdp", _) => "AF_XDP",
            _ => "UDP sockets",
        })
    }
}

//! How the packets of an end were carried: datapath, memory, and the port's counters.

use roce_verbs::Context;
use roce_verbs::datapath::{Datapath, DatapathKind, XdpQueue};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// How the packets of an end were carried.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DatapathReport {
    /// `udp` or `xdp`.
    datapath: &'static str,
    /// With AF_XDP, whether the driver read and wrote frames in our memory, as reported by the
    /// sockets.
    zero_copy: Option<bool>,
    /// The port's counters; with AF_XDP also those of its rings and of the kernel.
    port_counters: BTreeMap<&'static str, u64>,
    /// With AF_XDP, the same for each queue.
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

impl DatapathReport {
    /// How a device's packets are carried, with the current counters.
    pub(super) fn of(context: &Context) -> Self {
        let datapath = context.datapath();
        Self {
            datapath: datapath.map_or("idle", Datapath::name),
            zero_copy: datapath.and_then(|datapath| match datapath.kind {
                DatapathKind::Xdp { zero_copy, .. } => zero_copy,
                _ => None,
            }),
            port_counters: context.port_counters().into_iter().collect(),
            xdp_queues: context.xdp_queues().into_iter().map(Queue::from).collect(),
        }
    }
}

impl fmt::Display for DatapathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.datapath, self.zero_copy) {
            ("xdp", Some(true)) => "AF_XDP with zero-copy",
            ("xdp", _) => "AF_XDP",
            _ => "UDP sockets",
        })
    }
}

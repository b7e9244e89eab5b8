//! How the packets of an end were carried: datapath, memory, and the port's counters.

use crate::lanes::refusals;
use clap::ValueEnum;
use roce_verbs::Context;
use roce_verbs::datapath::{Datapath, DatapathKind, XdpQueue};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The way of packets to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Memory that two processes of one user on one host share
    Lane,
    /// UDP sockets
    Sockets,
    /// AF_XDP.
    #[value(skip)]
    Xdp,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Sockets => "sockets",
            Self::Xdp => "AF_XDP",
        }
    }
}

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

    /// The way that most packets have taken.
    pub(super) fn way(&self) -> Way {
        self.way_after(&BTreeMap::new())
    }

    /// The way that most packets have taken since an earlier report.
    pub(super) fn way_since(&self, earlier: &Self) -> Way {
        self.way_after(&earlier.port_counters)
    }

    fn way_after(&self, before: &BTreeMap<&'static str, u64>) -> Way {
        let since = |name| {
            let of = |counters: &BTreeMap<&str, u64>| counters.get(name).copied().unwrap_or(0);
            of(&self.port_counters).saturating_sub(of(before))
        };
        match self.datapath {
            "xdp" => Way::Xdp,
            _ if 2 * since("tx_lane_packets") > since("tx_packets") => Way::Lane,
            _ => Way::Sockets,
        }
    }
}

impl fmt::Display for DatapathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.way(), self.zero_copy) {
            (Way::Xdp, Some(true)) => "AF_XDP with zero-copy",
            (Way::Xdp, _) => "AF_XDP",
            (Way::Lane, _) => "a lane (shared memory)",
            (Way::Sockets, _) => "UDP sockets",
        })?;
        for (why, _) in refusals(|name| self.port_counters.get(name).copied()) {
            write!(f, ", without a lane because {}", why.explain())?;
        }
        Ok(())
    }
}

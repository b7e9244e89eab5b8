//! The outcome of a run.

use crate::fabric::Counters;
use crate::oracle::Violation;
use serde::Serialize;
use std::collections::BTreeMap;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The violation, if there was one.
    pub violation: Option<Violation>,
    /// Two runs with the same fingerprint were the same.
    pub fingerprint: u64,
    /// Sends that were posted.
    pub sends: u64,
    /// Receives that were posted.
    pub receives: u64,
    /// Completions by status, in words.
    pub completions: BTreeMap<&'static str, u64>,
    /// What happened to packets.
    pub packets: Counters,
    /// Packets that NICs retransmitted.
    pub retransmitted: u64,
    /// Packets that NICs dropped.
    pub dropped_by_nics: u64,
    /// CQs that overran.
    pub overruns: u64,
    /// QPs that reuse a number from before a restart.
    pub numbers_again: u64,
    /// CNPs that QPs sent.
    pub cnps: u64,
    /// Limits of QPs' rates that were set.
    pub limited: u64,
    /// Pairs that were connected by RoCE v1.
    pub v1_pairs: u64,
    /// Datagrams to multicast groups that were posted.
    pub multicasts: u64,
    /// Receives of members of multicast groups that completed.
    pub multicast_arrivals: u64,
    /// On-demand regions that were unmapped.
    pub unmapped: u64,
    /// Regions that were registered again.
    pub reregistered: u64,
    /// Events of CQs.
    pub cq_events: u64,
    /// Messages of connection managers.
    pub cm_messages: u64,
    /// Connections that connection managers made.
    pub managed: u64,
    /// Connections that an application ended.
    pub disconnects: u64,
    /// The virtual time of the run, in ns.
    pub virtual_ns: u64,
}

/// The outcome of many runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of runs.
    pub seeds: u64,
    /// Number of runs with a violation.
    pub violations: u64,
    /// Sends that were posted.
    pub sends: u64,
    /// Receives that were posted.
    pub receives: u64,
    /// Completions by status.
    pub completions: BTreeMap<&'static str, u64>,
    /// What happened to packets.
    pub packets: Counters,
    /// Packets that NICs retransmitted.
    pub retransmitted: u64,
    /// Packets that NICs dropped.
    pub dropped_by_nics: u64,
    /// CQs that overran.
    pub overruns: u64,
    /// QPs that reuse a number from before a restart.
    pub numbers_again: u64,
    /// CNPs that QPs sent.
    pub cnps: u64,
    /// Limits of QPs' rates that were set.
    pub limited: u64,
    /// Pairs that were connected by RoCE v1.
    pub v1_pairs: u64,
    /// Datagrams to multicast groups that were posted.
    pub multicasts: u64,
    /// Receives of members of multicast groups that completed.
    pub multicast_arrivals: u64,
    /// On-demand regions that were unmapped.
    pub unmapped: u64,
    /// Regions that were registered again.
    pub reregistered: u64,
    /// Events of CQs.
    pub cq_events: u64,
    /// Messages of connection managers.
    pub cm_messages: u64,
    /// Connections that connection managers made.
    pub managed: u64,
    /// Connections that an application ended.
    pub disconnects: u64,
    /// The total virtual time of the runs, in seconds.
    pub virtual_seconds: f64,
}

impl Summary {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.violations += u64::from(outcome.violation.is_some());
        self.sends += outcome.sends;
        self.receives += outcome.receives;
        for (status, count) in &outcome.completions {
            *self.completions.entry(status).or_default() += count;
        }
        self.packets.add(&outcome.packets);
        self.retransmitted += outcome.retransmitted;
        self.dropped_by_nics += outcome.dropped_by_nics;
        self.overruns += outcome.overruns;
        self.numbers_again += outcome.numbers_again;
        self.cnps += outcome.cnps;
        self.limited += outcome.limited;
        self.v1_pairs += outcome.v1_pairs;
        self.multicasts += outcome.multicasts;
        self.multicast_arrivals += outcome.multicast_arrivals;
        self.unmapped += outcome.unmapped;
        self.reregistered += outcome.reregistered;
        self.cq_events += outcome.cq_events;
        self.cm_messages += outcome.cm_messages;
        self.managed += outcome.managed;
        self.disconnects += outcome.disconnects;
        self.virtual_seconds += outcome.virtual_ns as f64 / 1e9;
    }
}

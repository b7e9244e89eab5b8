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
    /// The virtual time of the run, in ns.
    pub virtual_ns: u64,
    /// The counts of the run. Only a sum has the number of runs and their time.
    pub counts: Summary,
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
    /// The fates of packets.
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
        self.virtual_seconds += outcome.virtual_ns as f64 / 1e9;
        let counts = &outcome.counts;
        self.sends += counts.sends;
        self.receives += counts.receives;
        for (status, count) in &counts.completions {
            *self.completions.entry(status).or_default() += count;
        }
        self.packets.add(&counts.packets);
        self.retransmitted += counts.retransmitted;
        self.dropped_by_nics += counts.dropped_by_nics;
        self.overruns += counts.overruns;
        self.numbers_again += counts.numbers_again;
        self.cnps += counts.cnps;
        self.limited += counts.limited;
        self.v1_pairs += counts.v1_pairs;
        self.multicasts += counts.multicasts;
        self.multicast_arrivals += counts.multicast_arrivals;
        self.unmapped += counts.unmapped;
        self.reregistered += counts.reregistered;
        self.cq_events += counts.cq_events;
        self.cm_messages += counts.cm_messages;
        self.managed += counts.managed;
        self.disconnects += counts.disconnects;
    }
}

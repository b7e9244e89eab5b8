//! The results of a swarm, as a table or as JSON.

use super::COMMIT;
use comfy_table::{CellAlignment, Table, presets};
use roce_sim::swarm::{Outcome, Summary};
use roce_trust::output::Stdout;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The commit of this program: a seed gives the same run only with the same commit.
    pub(super) commit: &'static str,
    pub(super) from: u64,
    pub(super) seconds: f64,
    pub(super) seeds_per_second: f64,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) failures: Vec<Failure>,
}

/// A seed whose run violated a rule.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    pub(super) seed: u64,
    pub(super) violation: String,
    /// The plan, shrunk to what is needed for a failure.
    pub(super) smallest: Option<String>,
    /// The violation of the shrunk plan.
    pub(super) smallest_violation: Option<String>,
    pub(super) replay: String,
}

impl Failure {
    pub(super) fn of(seed: u64, outcome: &Outcome) -> Option<Self> {
        let violation = outcome.violation.as_ref()?;
        Some(Self {
            seed,
            violation: violation.to_string(),
            smallest: None,
            smallest_violation: None,
            replay: format!("roce sim --seed {seed}"),
        })
    }
}

impl Report {
    pub(super) fn new(
        summary: Summary,
        from: u64,
        failures: Vec<Failure>,
        elapsed: Duration,
    ) -> Self {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        Self {
            commit: COMMIT,
            from,
            seconds,
            seeds_per_second: summary.seeds as f64 / seconds,
            summary,
            failures,
        }
    }

    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = Stdout::lock();
        if json {
            let text = serde_json::to_string_pretty(self)?;
            return writeln!(out, "{text}");
        }
        for failure in &self.failures {
            failure.write(&mut out)?;
        }
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "{} seeds from {} in {:.1} s ({:.0} a second), commit {}: {} violations",
            self.summary.seeds,
            self.from,
            self.seconds,
            self.seeds_per_second,
            self.commit,
            self.summary.violations,
        )
    }

    fn table(&self) -> Table {
        let all = &self.summary;
        let mut rows = vec![
            ("sends posted".to_owned(), all.sends),
            ("receives posted".to_owned(), all.receives),
        ];
        for (status, count) in &all.completions {
            rows.push((format!("completed: {status}"), *count));
        }
        rows.extend(
            [
                ("packets sent", all.packets.sent),
                ("retransmitted", all.retransmitted),
                ("lost", all.packets.lost),
                ("doubled", all.packets.duplicated),
                ("held back", all.packets.reordered),
                ("damaged", all.packets.corrupted),
                ("dropped by switches", all.packets.dropped),
                ("dropped by slow hosts", all.packets.overrun),
                ("dropped by NICs", all.dropped_by_nics),
                ("completion queues overrun", all.overruns),
                ("QP numbers used again", all.numbers_again),
                ("marked", all.packets.marked),
                ("congestion notifications", all.cnps),
                ("limits of rates", all.limited),
                ("connections by RoCE v1", all.v1_pairs),
                ("datagrams to groups", all.multicasts),
                ("their arrivals at members", all.multicast_arrivals),
                ("on-demand regions unmapped", all.unmapped),
                ("regions registered again", all.reregistered),
                ("events of completion queues", all.cq_events),
                ("messages of connection managers", all.cm_messages),
                ("connections that they made", all.managed),
                ("connections ended by applications", all.disconnects),
                ("pause frames", all.packets.pauses),
                ("seconds of virtual time", all.virtual_seconds as u64),
            ]
            .map(|(name, count)| (name.to_owned(), count)),
        );
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for (name, count) in rows {
            table.add_row([name, count.to_string()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

impl Failure {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "seed {} at commit {COMMIT}: {}",
            self.seed, self.violation
        )?;
        if let (Some(plan), Some(violation)) = (&self.smallest, &self.smallest_violation) {
            writeln!(out, "cut down: {violation}\n{plan}")?;
        }
        writeln!(out, "again: {}\n", self.replay)
    }
}

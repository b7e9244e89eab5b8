//! The results of the experiments, as a table or as JSON.

use crate::sim::COMMIT;
use comfy_table::{CellAlignment, Table, presets};
use roce_sim::congestion::{Outcome, Scenario};
use roce_trust::output::Stdout;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// The results of all experiments.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) commit: &'static str,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    pub(super) outcomes: Vec<Outcome>,
}

/// The columns of a table.
pub(super) const COLUMNS: [&str; 13] = [
    "experiment",
    "network",
    "algorithm",
    "goodput Gb/s",
    "link used %",
    "Jain",
    "queue p50 KB",
    "p99",
    "max",
    "dropped",
    "retransmitted",
    "pauses",
    "times p50, p99 ms",
];

impl Report {
    pub(super) fn new(outcomes: Vec<Outcome>, seed: u64, elapsed: Duration) -> Self {
        Self {
            commit: COMMIT,
            seed,
            seconds: elapsed.as_secs_f64(),
            outcomes,
        }
    }

    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = Stdout::lock();
        if json {
            let text = serde_json::to_string_pretty(self)?;
            return writeln!(out, "{text}");
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(COLUMNS);
        for outcome in &self.outcomes {
            table.add_row(cells(outcome));
        }
        for column in table.column_iter_mut().skip(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")?;
        let runs = self.outcomes.len();
        writeln!(
            out,
            "{runs} runs with seed {} in {:.1} s, commit {}",
            self.seed, self.seconds, self.commit
        )
    }
}

/// A table's cells for an outcome.
pub(super) fn cells(outcome: &Outcome) -> [String; 13] {
    let kb = |bytes: usize| format!("{:.0}", bytes as f64 / 1e3);
    let dash = || "–".to_owned();
    let times = outcome.times.as_ref();
    [
        outcome.scenario.to_owned(),
        outcome.loss.name().to_owned(),
        outcome.algorithm.name().to_owned(),
        format!("{:.1}", outcome.goodput),
        outcome
            .utilisation()
            .map_or_else(dash, |used| format!("{:.1}", used * 100.0)),
        outcome
            .jain()
            .map_or_else(dash, |jain| format!("{jain:.3}")),
        kb(outcome.queue_p50),
        kb(outcome.queue_p99),
        kb(outcome.queue_max),
        outcome.dropped.to_string(),
        outcome.retransmitted.to_string(),
        format!("{}, late {}", outcome.pauses[0], outcome.pauses[1]),
        times.map_or_else(dash, |times| {
            format!("{:.2}, {:.2}", times.p50_ms, times.p99_ms)
        }),
    ]
}

/// Lists the experiments.
pub(super) fn list(scenarios: &[Scenario]) -> io::Result<()> {
    let mut out = Stdout::lock();
    for scenario in scenarios {
        writeln!(out, "{:<14} {}", scenario.name, scenario.about)?;
    }
    Ok(())
}

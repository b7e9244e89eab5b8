//! The table of virtual time beside real time.

use super::incast::{Figures, SENDERS};
use crate::median;
use std::fmt::Write;

type Measure = (&'static str, &'static str, fn(&Figures) -> f64);

const ROWS: [Measure; 11] = [
    ("payload of all flows", "Mb/s", Figures::total),
    ("of the slowest flow", "Mb/s", |figures| figures.flow(0)),
    ("of the median flow", "Mb/s", |figures| {
        f64::midpoint(figures.flow(SENDERS / 2 - 1), figures.flow(SENDERS / 2))
    }),
    ("of the fastest flow", "Mb/s", |figures| {
        figures.flow(SENDERS - 1)
    }),
    ("packets marked", "/s", |figures| figures.marked),
    ("CNPs", "/s", |figures| figures.cnps),
    ("packets dropped", "/s", |figures| figures.dropped),
    ("mean queue", "KB", |figures| figures.queue_mean() / 1e3),
    ("mean queue of 0.1 s, median", "KB", |figures| {
        figures.queue_usual() / 1e3
    }),
    ("mean queue of 0.1 s, 99th percentile", "KB", |figures| {
        figures.queue_high() / 1e3
    }),
    ("longest queue in 0.1 s, median", "KB", |figures| {
        figures.queue_peak() / 1e3
    }),
];

/// The medians of all runs, and the difference of real time from virtual time.
pub fn table(virtual_time: &[Figures], real_time: &[Figures]) -> String {
    let mut text = String::from("| what | virtual time | real time | difference |\n");
    text += "|---|---|---|---|\n";
    for (what, unit, of) in ROWS {
        let [ours, theirs] = [virtual_time, real_time].map(|runs| {
            let figures: Vec<f64> = runs.iter().map(of).collect();
            median(&figures).unwrap_or(f64::NAN)
        });
        let difference = match ours {
            0.0 => "-".to_owned(),
            _ => format!("{:+.0} %", (theirs / ours - 1.0) * 100.0),
        };
        let digits = if ours.max(theirs) < 100.0 { 1 } else { 0 };
        let _ = writeln!(
            text,
            "| {what} | {ours:.digits$} {unit} | {theirs:.digits$} {unit} | {difference} |"
        );
    }
    text
}

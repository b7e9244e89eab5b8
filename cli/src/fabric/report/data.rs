//! The data of the plots, as CSV.

use super::Report;
use std::fmt::Write;

/// A row for each flow and interval in which frames arrived.
pub(super) fn flows(report: &Report<'_>) -> String {
    let mut csv = String::from("seconds,flow,bits_per_sec\n");
    for flow in &report.flows {
        let name = quoted(&report.names.flow(&flow.key));
        for (index, bytes) in flow.arrivals.iter() {
            let Some((end, length)) = interval(report, index) else {
                continue;
            };
            let rate = *bytes as f64 * 8.0 / length;
            let _ = writeln!(csv, "{end:.6},{name},{rate:.0}");
        }
    }
    csv
}

/// A row for each port and interval.
pub(super) fn ports(report: &Report<'_>) -> String {
    let mut csv = String::from(
        "seconds,port,bits_per_sec,mean_queue_bytes,longest_queue_bytes,marked,dropped,pauses,\
         paused_seconds\n",
    );
    for record in &report.ports {
        let name = quoted(&report.names.port(&record.port));
        for (index, totals) in record.curve.iter() {
            let Some((end, _)) = interval(report, index) else {
                continue;
            };
            let _ = writeln!(
                csv,
                "{end:.6},{name},{:.0},{:.0},{},{},{},{},{:.6}",
                totals.bits_per_sec(),
                totals.mean_queue(),
                totals.longest_queue,
                totals.marked,
                totals.drops.total(),
                totals.pauses,
                totals.paused.as_secs_f64(),
            );
        }
    }
    csv
}

/// The end of an interval since the beginning and its length, in seconds.
fn interval(report: &Report<'_>, index: usize) -> Option<(f64, f64)> {
    let axis = report.recorder.axis();
    let [begin, end] = axis.interval(index)?;
    let length = end.saturating_duration_since(begin).as_secs_f64();
    let since = end.saturating_duration_since(axis.begin()).as_secs_f64();
    (length > 0.0).then_some((since, length))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

//! Writes what a recorder saw as a folder: a page with tables, plots, and their data.

mod data;
mod page;
mod plots;

#[cfg(test)]
mod tests;

use super::names::Names;
use crate::error::Error;
use roce_sim::record::{FlowRecord, PortRecord, Recorder};
use roce_trust::files;
use std::path::Path;
use std::time::Duration;

/// The most lines in a plot.
const PLOTTED: usize = 16;

/// Writes `report.md`, its plots and their data to a folder, which is created if it does not
/// exist. `title` is the heading of the page. `events` are changes of the network: the fabric's time
/// of each, and what changed.
pub(crate) fn write(
    folder: &Path,
    title: &str,
    recorder: &Recorder,
    names: &Names,
    events: &[(Duration, String)],
) -> Result<(), Error> {
    files::create_folders(folder).map_err(|error| Error::write(folder, &error))?;
    let report = Report::new(recorder, names);
    let plots = plots::draw(&report).map_err(Error::new)?;
    for plot in &plots {
        save(&folder.join(plot.file), &plot.svg)?;
    }
    save(&folder.join("flows.csv"), &data::flows(&report))?;
    save(&folder.join("ports.csv"), &data::ports(&report))?;
    save(
        &folder.join("report.md"),
        &page::page(title, &report, events, &plots),
    )
}

fn save(path: &Path, text: &str) -> Result<(), Error> {
    files::write(path, text).map_err(|error| Error::write(path, &error))
}

/// A recorder's contents in the order in which the report shows them.
struct Report<'a> {
    recorder: &'a Recorder,
    names: &'a Names,
    /// The flows that carry data, those with the most bytes first.
    flows: Vec<&'a FlowRecord>,
    /// The ports that sent or dropped anything, those with the most bytes first.
    ports: Vec<&'a PortRecord>,
}

impl<'a> Report<'a> {
    fn new(recorder: &'a Recorder, names: &'a Names) -> Self {
        let mut flows: Vec<&FlowRecord> = recorder.data_flows().collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.arrived_bytes));
        let used = |port: &&PortRecord| {
            port.totals.wire_bytes > 0 || port.totals.drops.total() > 0 || port.totals.pauses > 0
        };
        let mut ports: Vec<&PortRecord> = recorder.ports().iter().filter(used).collect();
        ports.sort_by_key(|port| std::cmp::Reverse(port.totals.wire_bytes));
        Self {
            recorder,
            names,
            flows,
            ports,
        }
    }

    /// The flows that are plotted, in the order of their first packets.
    fn plotted_flows(&self) -> Vec<&'a FlowRecord> {
        let mut flows: Vec<&FlowRecord> = self.flows.iter().take(PLOTTED).copied().collect();
        flows.sort_by_key(|flow| (flow.first, flow.key));
        flows
    }

    fn seconds(&self) -> f64 {
        let axis = self.recorder.axis();
        let time = axis.end().saturating_duration_since(axis.begin());
        time.as_secs_f64()
    }
}

/// The share of a link's rate that a port used, from 0 to 1.
fn used(port: &PortRecord) -> f64 {
    port.totals.bits_per_sec() / (port.port.link.bits_per_sec.max(1) as f64)
}

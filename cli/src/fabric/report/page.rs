//! The page of a report.

use super::plots::Plot;
use super::{Report, used};
use crate::sim::COMMIT;
use crate::top::format::{per_second, time as short_time};
use crate::words::counted;
use roce_sim::fabric::{NodeId, Port};
use roce_sim::record::{PortId, PortRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// The most rows of a table.
const ROWS: usize = 64;

pub(super) fn page(
    title: &str,
    report: &Report<'_>,
    events: &[(Duration, String)],
    plots: &[Plot],
) -> String {
    let mut page = format!("# {}\n\n", cell(title));
    summary(&mut page, report);
    topology(&mut page, report);
    changes(&mut page, report, events);
    flows(&mut page, report);
    plot(&mut page, plots, "flows.svg");
    plot(&mut page, plots, "completion.svg");
    ports(&mut page, report);
    plot(&mut page, plots, "ports.svg");
    plot(&mut page, plots, "queues.svg");
    drops(&mut page, report);
    links(&mut page, report);
    let _ = writeln!(
        page,
        "Data: [flows.csv](flows.csv), [ports.csv](ports.csv). Written by roce {}, commit {COMMIT}.",
        env!("CARGO_PKG_VERSION"),
    );
    page
}

/// Text in a table: names may come from a user's file.
fn cell(text: &str) -> String {
    let plain = text.chars().map(|char| match char {
        '\n' | '\r' => ' ',
        char => char,
    });
    let plain: String = plain.collect();
    plain.replace('|', "\\|").replace('<', "&lt;")
}

fn table(page: &mut String, columns: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(page, "| {} |", columns.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(columns.len()));
    for row in rows.iter().take(ROWS) {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    if rows.len() > ROWS {
        let _ = writeln!(page, "\n{} more rows are left out.", rows.len() - ROWS);
    }
    page.push('\n');
}

fn plot(page: &mut String, plots: &[Plot], file: &str) {
    if let Some(plot) = plots.iter().find(|plot| plot.file == file) {
        let _ = writeln!(page, "![{}]({file})\n\n{}\n", plot.caption, plot.about);
    }
}

fn summary(page: &mut String, report: &Report<'_>) {
    let recorder = report.recorder;
    let totals = recorder.ports().iter().map(|record| &record.totals);
    let [mut marked, mut dropped, mut pauses] = [0; 3];
    for totals in totals {
        marked += totals.marked;
        dropped += totals.drops.total();
        pauses += totals.pauses;
    }
    let bytes: u64 = report.flows.iter().map(|flow| flow.arrived_bytes).sum();
    let seconds = report.seconds();
    let mut rows = vec![
        ("time", short_time(seconds)),
        ("flows with data", report.flows.len().to_string()),
        (
            "throughput of all flows",
            format!("{:.3} Gb/s", per_second(bytes as f64 * 8.0, seconds) / 1e9),
        ),
    ];
    if let Some(jain) = recorder.fairness() {
        rows.push(("fairness of the flows' rates (Jain)", format!("{jain:.3}")));
    }
    let at = |percent| recorder.completion_time(percent);
    if let [Some(p50), Some(p90), Some(p99), Some(max)] = [50.0, 90.0, 99.0, 100.0].map(at) {
        let times = [p50, p90, p99, max].map(|time| short_time(time.as_secs_f64()));
        let text = times.join(", ");
        rows.push(("completion times p50, p90, p99, longest", text));
    }
    rows.extend([
        ("packets marked", marked.to_string()),
        ("packets dropped", dropped.to_string()),
        ("pause frames", pauses.to_string()),
    ]);
    let unrecorded = recorder.unrecorded();
    for (what, packets) in [
        (
            "packets that are not IP or are malformed",
            unrecorded.other_packets,
        ),
        (
            "packets of flows that are left out",
            unrecorded.packets_beyond_limit,
        ),
        ("packets not looked at", unrecorded.missed),
    ] {
        if packets > 0 {
            rows.push((what, packets.to_string()));
        }
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(what, value)| vec![what.to_owned(), value])
        .collect();
    table(page, &["", ""], &rows);
}

fn topology(page: &mut String, report: &Report<'_>) {
    let ports = report.recorder.ports();
    let mut hosts = BTreeSet::new();
    let mut switches = BTreeSet::new();
    for record in ports {
        match record.port.from {
            NodeId::Host(host) => hosts.insert(host.0),
            NodeId::Switch(switch) => switches.insert(switch.0),
        };
    }
    let cables: Vec<&Port> = ports.iter().step_by(2).map(|record| &record.port).collect();
    page.push_str("## Network\n\n");
    let _ = writeln!(
        page,
        "{}, {}, {}.\n",
        counted(hosts.len() as u64, "host"),
        counted(switches.len() as u64, "switch"),
        counted(cables.len() as u64, "cable"),
    );
    // Cables of one kind share a row.
    let mut kinds: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for port in cables {
        let link = &port.link;
        let kind = (link.bits_per_sec, link.delay, link.queue_bytes);
        let [a, b] = [port.from, port.to].map(|node| report.names.node(node));
        kinds.entry(kind).or_default().push(format!("{a}-{b}"));
    }
    let rows: Vec<_> = kinds
        .into_iter()
        .map(|((bits_per_sec, delay, queue_bytes), cables)| {
            vec![
                cables.join(", "),
                format!("{:.3}", bits_per_sec as f64 / 1e9),
                short_time(delay.as_secs_f64()),
                format!("{:.1}", queue_bytes as f64 / 1e3),
            ]
        })
        .collect();
    table(page, &["cables", "Gb/s", "delay", "queue kB"], &rows);
}

/// The network's changes, at times since the recorder began.
fn changes(page: &mut String, report: &Report<'_>, events: &[(Duration, String)]) {
    if events.is_empty() {
        return;
    }
    page.push_str("## Events\n\n");
    let begin = Duration::from_nanos(report.recorder.axis().begin().as_nanos());
    let rows: Vec<_> = events
        .iter()
        .map(|(time, what)| {
            let since = time.saturating_sub(begin).as_secs_f64();
            vec![format!("{since:.3} s"), what.clone()]
        })
        .collect();
    table(page, &["time", "what"], &rows);
}

fn flows(page: &mut String, report: &Report<'_>) {
    page.push_str("## Flows\n\n");
    if report.flows.is_empty() {
        page.push_str("No flow carried data.\n\n");
        return;
    }
    page.push_str(
        "A flow is the packets of one direction of a connection that carry data. Its time is from \
         its first packet to its last one. CNPs are those from the destination host to the source \
         host, of all flows between them.\n\n",
    );
    let rows: Vec<_> = report
        .flows
        .iter()
        .map(|flow| {
            let cnps = report.recorder.cnps(flow.key.dst, flow.key.src);
            vec![
                report.names.flow(&flow.key),
                format!("{:.3}", flow.arrived_bytes as f64 / 1e6),
                flow.arrived_packets.to_string(),
                format!("{:.3}", flow.bits_per_sec() / 1e9),
                short_time(flow.time().as_secs_f64()),
                flow.marked.to_string(),
                flow.drops.total().to_string(),
                cnps.to_string(),
            ]
        })
        .collect();
    let columns = [
        "flow", "MB", "packets", "Gb/s", "time", "marked", "dropped", "CNPs",
    ];
    table(page, &columns, &rows);
}

fn ports(page: &mut String, report: &Report<'_>) {
    page.push_str("## Ports\n\n");
    let rows: Vec<_> = report
        .ports
        .iter()
        .map(|record| {
            let totals = &record.totals;
            vec![
                report.names.port(&record.port),
                format!("{:.3}", totals.bits_per_sec() / 1e9),
                format!("{:.1}", used(record) * 100.0),
                format!("{:.1}", totals.mean_queue() / 1e3),
                format!("{:.1}", totals.longest_queue as f64 / 1e3),
                totals.marked.to_string(),
                totals.drops.total().to_string(),
                totals.pauses.to_string(),
                short_time(totals.paused.as_secs_f64()),
            ]
        })
        .collect();
    let columns = [
        "port",
        "Gb/s",
        "used %",
        "mean queue kB",
        "longest queue kB",
        "marked",
        "dropped",
        "pauses",
        "paused",
    ];
    table(page, &columns, &rows);
}

fn drops(page: &mut String, report: &Report<'_>) {
    page.push_str("## Drops\n\n");
    let mut rows = Vec::new();
    for record in &report.ports {
        for (reason, packets) in record.totals.drops.reasons() {
            let port = report.names.port(&record.port);
            rows.push((packets, vec![port, reason.to_string(), packets.to_string()]));
        }
    }
    if rows.is_empty() {
        page.push_str("No packet was dropped.\n\n");
        return;
    }
    rows.sort_by_key(|(packets, _)| std::cmp::Reverse(*packets));
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    table(page, &["port", "reason", "packets"], &rows);
}

/// The flows on each link between switches.
fn links(page: &mut String, report: &Report<'_>) {
    let mut links: BTreeMap<PortId, Vec<String>> = BTreeMap::new();
    for flow in &report.flows {
        for (link, _) in &flow.links {
            let name = report.names.flow(&flow.key);
            links.entry(*link).or_default().push(name);
        }
    }
    let between = |record: &&PortRecord| {
        let Port { from, to, .. } = record.port;
        matches!((from, to), (NodeId::Switch(_), NodeId::Switch(_)))
    };
    let ports: Vec<&PortRecord> = report.recorder.ports().iter().filter(between).collect();
    if ports.is_empty() {
        return;
    }
    page.push_str("## Links between switches\n\n");
    let rows: Vec<_> = ports
        .iter()
        .map(|record| {
            let port = &record.port;
            let flows = links.get(&(port.cable, port.from));
            let flows = flows.map_or(&[][..], Vec::as_slice);
            let mut names = flows.iter().take(8).cloned().collect::<Vec<_>>().join("; ");
            if flows.len() > 8 {
                let _ = write!(names, "; {} more", flows.len() - 8);
            }
            vec![
                report.names.port(port),
                format!("{:.1}", used(record) * 100.0),
                flows.len().to_string(),
                names,
            ]
        })
        .collect();
    table(page, &["link", "used %", "flows", "which"], &rows);
}

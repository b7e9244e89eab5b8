//! The results, as a table or as JSON.

use super::args::PerfArgs;
use super::bandwidth::Measured;
use super::datapath::{DatapathReport, Way};
use super::latency::Latencies;
use super::network::Network;
use super::op::Op;
use crate::error::Error;
use roce_trust::output;
use serde::Serialize;
use std::fmt::Write as _;

/// The number of preemptions per second of measuring above which the machine counts as busy.
const BUSY: f64 = 1500.0;

/// The result of a run by one way of packets.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) parameters: Parameters,
    /// How the packets of this end were carried.
    #[serde(flatten)]
    pub(super) datapath: DatapathReport,
    /// The value for `--seed` to send the same patterns again.
    pub(super) seed: u64,
    pub(super) rows: Vec<Row>,
    /// How often other threads have taken the processor from the measuring one.
    pub(super) preemptions: u64,
    /// The fates of this end's packets.
    #[serde(flatten)]
    pub(super) network: Network,
}

/// The parameters of the run, known before the first measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Parameters {
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) path_mtu: usize,
    pub(super) depth: usize,
}

/// The result for an operation and a size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    op: Op,
    size_bytes: usize,
    over: Way,
    messages: u64,
    seconds: f64,
    bits_per_second: f64,
    messages_per_second: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    latency_p999_us: f64,
    verified_bytes: u64,
}

impl Row {
    pub(super) fn new(
        op: Op,
        size: usize,
        over: Way,
        measured: Measured,
        latencies: &Latencies,
        verified: u64,
    ) -> Self {
        let seconds = measured.elapsed.as_secs_f64().max(1e-9);
        let messages_per_second = measured.messages as f64 / seconds;
        let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            op,
            size_bytes: size,
            over,
            messages: measured.messages,
            seconds,
            bits_per_second: messages_per_second * size as f64 * 8.0,
            messages_per_second,
            latency_p50_us: us(0.5),
            latency_p99_us: us(0.99),
            latency_p999_us: us(0.999),
            verified_bytes: verified,
        }
    }

    /// The row's cells, as [`HEADINGS`] name them.
    fn cells(&self) -> [String; 9] {
        [
            self.op.label().to_owned(),
            self.size_bytes.to_string(),
            self.over.name().to_owned(),
            format!("{:.3}", self.bits_per_second / 1e9),
            format!("{:.0}", self.messages_per_second),
            format!("{:.2}", self.latency_p50_us),
            format!("{:.2}", self.latency_p99_us),
            format!("{:.2}", self.latency_p999_us),
            human_bytes(self.verified_bytes),
        ]
    }
}

/// Prints a row of the table as soon as it is measured. For the first row, for which the caller
/// passes the `datapaths` of all ways, prints the table's heading before it. Prints nothing for JSON, which is
/// printed at the end.
pub(super) fn show_row(
    args: &PerfArgs,
    parameters: &Parameters,
    datapaths: Option<Vec<DatapathReport>>,
    row: &Row,
) -> Result<(), Error> {
    if args.json {
        return Ok(());
    }
    let mut text = String::new();
    if let Some(datapaths) = datapaths {
        let over: Vec<String> = datapaths.iter().map(DatapathReport::to_string).collect();
        text = format!(
            "{} -> {}, RC over {}, path MTU {}, {} messages outstanding\n{}\n",
            parameters.local,
            parameters.remote,
            over.join(" and "),
            parameters.path_mtu,
            parameters.depth,
            line(HEADINGS.map(str::to_owned))
        );
    }
    // Without a reader, the measurement ends.
    Ok(output::print_stream(format_args!(
        "{text}{}\n",
        line(row.cells())
    ))?)
}

/// The reports of several ways.
#[derive(Serialize)]
struct Ways {
    ways: Vec<Report>,
}

/// Prints the reports in the selected format. The table has been printed before, row by row.
pub(super) fn print(args: &PerfArgs, ways: Vec<Report>) -> Result<(), Error> {
    if args.json {
        let json = match &ways[..] {
            [only] => serde_json::to_string_pretty(only)?,
            _ => serde_json::to_string_pretty(&Ways { ways })?,
        };
        return Ok(output::print_line(json)?);
    }
    let seed = ways.first().map_or(0, |report| report.seed);
    let mut text = format!("every byte compared was right (--seed {seed})");
    for report in &ways {
        text += "\n";
        if ways.len() > 1 {
            let _ = write!(text, "{}: ", report.datapath.way().name());
        }
        let _ = write!(text, "{}", report.network);
    }
    let rows = ways.iter().flat_map(|report| &report.rows);
    let seconds = rows.map(|row| row.seconds).sum::<f64>();
    let preemptions: u64 = ways.iter().map(|report| report.preemptions).sum();
    if preemptions as f64 > seconds * BUSY {
        let _ = write!(
            text,
            "\nthe machine was busy: other threads took the processor {} times; the figures of an \
             idle machine are better",
            preemptions
        );
    }
    Ok(output::print_line(text)?)
}

/// One client that a server has served.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Served {
    /// Its address and port.
    pub(super) client: String,
    /// How the packets of this end were carried.
    #[serde(flatten)]
    pub(super) datapath: DatapathReport,
    #[serde(flatten)]
    pub(super) network: Network,
}

/// Prints a line about a client, in the selected format.
pub(super) fn print_served(args: &PerfArgs, served: &Served) -> Result<(), Error> {
    if args.json {
        return Ok(output::print_line(serde_json::to_string(served)?)?);
    }
    let Served {
        client,
        datapath,
        network,
    } = served;
    Ok(output::print_line(format_args!(
        "served {client} over {datapath}; {network}"
    ))?)
}

/// The table's headings, with the widths of their columns.
const HEADINGS: [&str; 9] = [
    "operation",
    "bytes",
    "over",
    "Gb/s",
    "messages/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "compared",
];
const WIDTHS: [usize; 9] = [9, 7, 7, 7, 10, 8, 8, 8, 8];

/// A line of the table: the first column and the way to the left, the others to the right.
fn line(cells: [String; 9]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        line += &match index {
            0 => format!("{cell:<width$}"),
            2 => format!(" {cell:<width$}"),
            _ => format!(" {cell:>width$}"),
        };
    }
    line
}

fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

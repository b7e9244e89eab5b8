//! The results, as a table or as JSON.

use super::args::PerfArgs;
use super::bandwidth::Measured;
use super::carrier::Carrier;
use super::latency::Latencies;
use super::network::Network;
use super::op::Op;
use crate::say::say;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) path_mtu: usize,
    /// How the packets of this end were carried.
    #[serde(flatten)]
    pub(super) carrier: Carrier,
    pub(super) depth: usize,
    /// The value for `--seed` to send the same patterns again.
    pub(super) seed: u64,
    pub(super) rows: Vec<Row>,
    /// What happened to the packets of this end.
    #[serde(flatten)]
    pub(super) network: Network,
}

/// The result for an operation and a size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    op: Op,
    size_bytes: usize,
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
}

/// Prints the report in the selected format.
pub(super) fn print(args: &PerfArgs, report: &Report) {
    if args.json {
        match serde_json::to_string_pretty(report) {
            Ok(text) => println!("{text}"),
            Err(error) => say("roce perf", &error),
        }
        return;
    }
    println!(
        "{} -> {}, RC over {}, path MTU {}, {} messages outstanding",
        report.local, report.remote, report.carrier, report.path_mtu, report.depth
    );
    println!("{}", table(&report.rows));
    println!(
        "every byte compared was right (--seed {})\n{}",
        report.seed, report.network
    );
}

/// One client that a server has served.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Served {
    /// Its address and port.
    pub(super) client: String,
    /// How the packets of this end were carried.
    #[serde(flatten)]
    pub(super) carrier: Carrier,
    #[serde(flatten)]
    pub(super) network: Network,
}

/// Prints a line about a client, in the selected format.
pub(super) fn print_served(args: &PerfArgs, served: &Served) {
    if !args.json {
        println!(
            "served {} over {}; {}",
            served.client, served.carrier, served.network
        );
        return;
    }
    match serde_json::to_string(served) {
        Ok(text) => println!("{text}"),
        Err(error) => say("roce perf", &error),
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "operation",
        "bytes",
        "Gb/s",
        "messages/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "compared",
    ]);
    for row in rows {
        table.add_row([
            row.op.label().to_owned(),
            row.size_bytes.to_string(),
            format!("{:.3}", row.bits_per_second / 1e9),
            format!("{:.0}", row.messages_per_second),
            format!("{:.2}", row.latency_p50_us),
            format!("{:.2}", row.latency_p99_us),
            format!("{:.2}", row.latency_p999_us),
            human_bytes(row.verified_bytes),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn human_bytes(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

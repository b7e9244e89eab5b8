//! The summary of a capture, flow by flow.

use std::io::{self, Write};
use std::time::Duration;

use super::capture::CaptureError;
use super::flow::{Flow, FlowTable, MAX_FLOWS};
use super::totals::Totals;
use crate::words::counted;

mod json;

#[cfg(test)]
mod tests;

use CellAlignment::{Left, Right};
use comfy_table::{CellAlignment, Table, presets};
use roce_trust::output::binary_bytes;

use super::cm::Kind;
use super::flow::{Message, NakKind};

#[derive(Debug)]
pub(super) struct Summary<'a> {
    pub(super) totals: &'a Totals,
    pub(super) flows: &'a FlowTable,
    /// Why the file was not read to its end.
    pub(super) error: Option<&'a CaptureError>,
    /// The number of flows to show as text, the ones with the most packets.
    pub(super) shown: usize,
}

impl Summary<'_> {
    pub(super) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_totals(out)?;
        let mut shown: Vec<(usize, &Flow)> = self.flows.flows().iter().enumerate().collect();
        let all = shown.len();
        if all > self.shown {
            shown.sort_by_key(|(index, flow)| (std::cmp::Reverse(flow.counters.packets), *index));
            shown.truncate(self.shown);
            shown.sort_by_key(|(index, _)| *index);
        }
        if !shown.is_empty() {
            writeln!(out, "\nFlows\n{}", traffic_table(&shown).trim_fmt())?;
            let messages = kind_table(&shown, &Message::NAMES, |flow| &flow.counters.messages);
            writeln!(out, "\nMessages\n{}", messages.trim_fmt())?;
        }
        let with_cm: Vec<_> = shown
            .iter()
            .copied()
            .filter(|(_, flow)| has_cm(flow))
            .collect();
        if !with_cm.is_empty() {
            let messages = kind_table(&with_cm, &Kind::NAMES, |flow| &flow.counters.cm_messages);
            writeln!(out, "\nConnection management\n{}", messages.trim_fmt())?;
        }
        if shown.iter().any(|(_, flow)| has_trouble(flow)) {
            writeln!(out, "\nTrouble\n{}", trouble_table(&shown).trim_fmt())?;
        }
        if all > shown.len() {
            writeln!(
                out,
                "\nShown are the {} busiest flows of {all} (--flows).",
                shown.len()
            )?;
        }
        if self.flows.untracked > 0 {
            writeln!(
                out,
                "\n{} more packets are of none of the first {MAX_FLOWS} flows, or too short to \
                 tell; they are in the totals only.",
                self.flows.untracked
            )?;
        }
        if let Some(error) = self.error {
            writeln!(out, "\nThe file is broken {error}.")?;
        }
        Ok(())
    }

    fn write_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let totals = self.totals;
        let span = match (totals.first, totals.last) {
            (Some(first), Some(last)) => format!(" in {}", duration(last.since(first))),
            _ => String::new(),
        };
        writeln!(
            out,
            "{} in the file ({}){span}",
            counted(totals.records, "packet"),
            binary_bytes(totals.wire_bytes)
        )?;
        let mut parts = vec![format!("ICRC ok {}", totals.icrc_ok)];
        for (count, name) in [
            (totals.icrc_bad, "ICRC BAD"),
            (totals.icrc_cut, "cut"),
            (totals.icrc_missing, "without ICRC"),
            (totals.malformed, "malformed"),
            (totals.super_packets, "super-packets"),
            (totals.filtered, "filtered out"),
        ] {
            if count > 0 {
                parts.push(format!("{name} {count}"));
            }
        }
        writeln!(out, "  {:>9}  RoCE: {}", totals.packets, parts.join(", "))?;
        for (names, count) in &totals.tunnels {
            writeln!(out, "  {:>9}  of these in {names}", count)?;
        }
        let other = &totals.other;
        for (count, name) in [
            (other.foreign, "not RoCE"),
            (
                other.extensions,
                "RoCE behind IPv6 extension headers, which RoCEv2 does not have",
            ),
            (other.fragment, "IP fragments, which RoCE packets never are"),
            (other.malformed, "broken in front of a transport header"),
            (other.cut, "cut before the transport header"),
        ] {
            if count > 0 {
                writeln!(out, "  {count:>9}  {name}")?;
            }
        }
        if let Some(link_type) = other.unknown_link_type {
            writeln!(
                out,
                "  {:>9}  of link types that are not supported, like {link_type}",
                other.link_type
            )?;
        }
        Ok(())
    }
}

/// A table with these columns and no rows yet.
fn table(head: &[(&str, CellAlignment)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.iter().map(|(name, _)| *name));
    for (column, (_, alignment)) in table.column_iter_mut().zip(head) {
        column.set_padding((2, 0)).set_cell_alignment(*alignment);
    }
    table
}

/// Source, destination, volume and rate of each flow.
fn traffic_table(flows: &[(usize, &Flow)]) -> Table {
    let mut table = table(&[
        ("#", Right),
        ("SOURCE", Left),
        ("QP", Right),
        ("DESTINATION", Left),
        ("QP", Right),
        ("TYPE", Left),
        ("BACK", Right),
        ("PACKETS", Right),
        ("PAYLOAD", Right),
        ("DURATION", Right),
        ("RATE", Right),
    ]);
    for &(index, flow) in flows {
        table.add_row(vec![
            (index + 1).to_string(),
            flow.key.src.to_string(),
            src_qpn(flow).map_or("?".into(), |qpn| qpn.to_string()),
            flow.key.dst.to_string(),
            flow.key.dest_qpn.to_string(),
            flow.transport.map_or("-".into(), |t| t.to_string()),
            flow.peer.map_or("-".into(), |peer| (peer + 1).to_string()),
            flow.counters.packets.to_string(),
            binary_bytes(flow.counters.payload_bytes),
            flow.duration().map_or("-".into(), duration),
            flow.bits_per_sec().map_or("-".into(), rate),
        ]);
    }
    table
}

/// Messages by kind; kinds without messages are left out.
fn kind_table(
    flows: &[(usize, &Flow)],
    names: &[(&str, &'static str)],
    counts: fn(&Flow) -> &[u64],
) -> Table {
    let is_there = |kind: &usize| flows.iter().any(|(_, flow)| counts(flow)[*kind] > 0);
    let kinds: Vec<usize> = (0..names.len()).filter(is_there).collect();
    let mut head = vec![("#", Right)];
    head.extend(kinds.iter().map(|kind| (names[*kind].1, Right)));
    let mut table = table(&head);
    for (index, flow) in flows {
        let counts = kinds.iter().map(|kind| count_or_dash(counts(flow)[*kind]));
        table.add_row(std::iter::once((index + 1).to_string()).chain(counts));
    }
    table
}

fn has_cm(flow: &Flow) -> bool {
    flow.counters.cm_messages.iter().any(|count| *count > 0)
}

/// Errors, for the flows that have any.
fn trouble_table(flows: &[(usize, &Flow)]) -> Table {
    let mut table = table(&[
        ("#", Right),
        ("RESENT", Right),
        ("GAPS", Right),
        ("MISSING", Right),
        ("RESTARTS", Right),
        ("RNR", Right),
        ("CNP", Right),
        ("CE", Right),
        ("ICRC BAD", Right),
        ("CUT", Right),
        ("MALFORMED", Right),
        ("NAK", Left),
    ]);
    for &(index, flow) in flows.iter().filter(|(_, flow)| has_trouble(flow)) {
        let c = &flow.counters;
        let naks: Vec<String> = NakKind::ALL
            .iter()
            .filter(|&&kind| c.naks[kind as usize] > 0)
            .map(|&kind| format!("{} {}", c.naks[kind as usize], kind.title()))
            .collect();
        let mut row = vec![(index + 1).to_string()];
        row.extend(
            [
                c.retransmitted,
                c.gaps,
                c.missing,
                c.restarts,
                c.rnr_naks,
                c.cnps,
                c.ecn_ce,
                c.icrc_bad,
                c.cut,
                c.malformed,
            ]
            .map(count_or_dash),
        );
        row.push(if naks.is_empty() {
            "-".into()
        } else {
            naks.join(", ")
        });
        table.add_row(row);
    }
    table
}

fn has_trouble(flow: &Flow) -> bool {
    let c = &flow.counters;
    c.retransmitted
        + c.gaps
        + c.restarts
        + c.rnr_naks
        + c.cnps
        + c.ecn_ce
        + c.icrc_bad
        + c.cut
        + c.malformed
        + c.all_naks()
        > 0
}

/// The sending queue pair, if known.
fn src_qpn(flow: &Flow) -> Option<roce_wire::Qpn> {
    flow.key.src_qpn.or(flow.peer_qpn)
}

fn count_or_dash(count: u64) -> String {
    match count {
        0 => "-".into(),
        n => n.to_string(),
    }
}

/// Bits per second, in decimal units, as links are rated.
fn rate(bits_per_sec: f64) -> String {
    const UNITS: [&str; 5] = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
    let mut value = bits_per_sec;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

fn duration(duration: Duration) -> String {
    match duration.as_nanos() {
        ns @ ..1_000 => format!("{ns} ns"),
        ns @ ..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        ns @ ..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", duration.as_secs_f64()),
    }
}

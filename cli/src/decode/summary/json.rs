//! The summary as JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::{Summary, src_qpn};
use crate::decode::cm;
use crate::decode::flow::{Flow, MAX_FLOWS, Message, NakKind};

/// The last line of `--json`.
#[derive(Debug, Serialize)]
pub(in crate::decode) struct JsonSummary {
    r#type: &'static str,
    records: u64,
    wire_bytes: u64,
    first_time: Option<String>,
    last_time: Option<String>,
    packets: u64,
    icrc_ok: u64,
    icrc_bad: u64,
    icrc_cut: u64,
    icrc_missing: u64,
    malformed: u64,
    super_packets: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tunnels: BTreeMap<String, u64>,
    filtered: u64,
    other: JsonOthers,
    flow_limit: usize,
    untracked_packets: u64,
    flows: Vec<JsonFlow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct JsonOthers {
    records: u64,
    not_roce: u64,
    ipv6_extensions: u64,
    fragments: u64,
    malformed: u64,
    cut: u64,
    unsupported_link_type: u64,
}

#[derive(Debug, Serialize)]
struct JsonFlow {
    flow: usize,
    src: IpAddr,
    src_qpn: Option<u32>,
    dst: IpAddr,
    dest_qpn: u32,
    transport: Option<&'static str>,
    reverse_flow: Option<usize>,
    packets: u64,
    wire_bytes: u64,
    payload_bytes: u64,
    first_time: Option<String>,
    last_time: Option<String>,
    duration_ns: Option<u64>,
    bits_per_sec: Option<f64>,
    messages: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cm: BTreeMap<&'static str, u64>,
    retransmitted: u64,
    retransmitted_bytes: u64,
    gaps: u64,
    missing: u64,
    restarts: u64,
    naks: BTreeMap<&'static str, u64>,
    rnr_naks: u64,
    cnps: u64,
    ecn_ce: u64,
    icrc_bad: u64,
    cut: u64,
    malformed: u64,
}

impl From<&Summary<'_>> for JsonSummary {
    fn from(summary: &Summary<'_>) -> Self {
        let totals = summary.totals;
        let other = &totals.other;
        let flows = summary.flows.flows().iter().enumerate();
        Self {
            r#type: "summary",
            records: totals.records,
            wire_bytes: totals.wire_bytes,
            first_time: totals.first.map(|time| time.to_string()),
            last_time: totals.last.map(|time| time.to_string()),
            packets: totals.packets,
            icrc_ok: totals.icrc_ok,
            icrc_bad: totals.icrc_bad,
            icrc_cut: totals.icrc_cut,
            icrc_missing: totals.icrc_missing,
            malformed: totals.malformed,
            super_packets: totals.super_packets,
            tunnels: totals.tunnels.clone(),
            filtered: totals.filtered,
            other: JsonOthers {
                records: other.sum(),
                not_roce: other.foreign,
                ipv6_extensions: other.extensions,
                fragments: other.fragment,
                malformed: other.malformed,
                cut: other.cut,
                unsupported_link_type: other.link_type,
            },
            flow_limit: MAX_FLOWS,
            untracked_packets: summary.flows.untracked,
            flows: flows.map(|(i, flow)| JsonFlow::new(i + 1, flow)).collect(),
            error: summary.error.map(ToString::to_string),
        }
    }
}

/// The counts that are not 0.
fn by_name(names: &[(&'static str, &str)], counts: &[u64]) -> BTreeMap<&'static str, u64> {
    let all = names.iter().zip(counts);
    let all = all.map(|((name, _), count)| (*name, *count));
    all.filter(|(_, count)| *count > 0).collect()
}

impl JsonFlow {
    fn new(number: usize, flow: &Flow) -> Self {
        let c = &flow.counters;
        Self {
            flow: number,
            src: flow.key.src,
            src_qpn: src_qpn(flow).map(|qpn| qpn.get()),
            dst: flow.key.dst,
            dest_qpn: flow.key.dest_qpn.get(),
            transport: flow.transport.map(|transport| transport.name()),
            reverse_flow: flow.peer.map(|peer| peer + 1),
            packets: c.packets,
            wire_bytes: c.wire_bytes,
            payload_bytes: c.payload_bytes,
            first_time: flow.first.map(|time| time.to_string()),
            last_time: flow.last.map(|time| time.to_string()),
            duration_ns: flow
                .duration()
                .and_then(|duration| u64::try_from(duration.as_nanos()).ok()),
            bits_per_sec: flow.bits_per_sec(),
            messages: by_name(&Message::NAMES, &c.messages),
            cm: by_name(&cm::Kind::NAMES, &c.cm_messages),
            retransmitted: c.retransmitted,
            retransmitted_bytes: c.retransmitted_bytes,
            gaps: c.gaps,
            missing: c.missing,
            restarts: c.restarts,
            naks: by_name(&NakKind::NAMES, &c.naks),
            rnr_naks: c.rnr_naks,
            cnps: c.cnps,
            ecn_ce: c.ecn_ce,
            icrc_bad: c.icrc_bad,
            cut: c.cut,
            malformed: c.malformed,
        }
    }
}

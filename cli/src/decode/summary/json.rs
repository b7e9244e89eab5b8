//! The summary as JSON.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::Value;

use super::{Summary, src_qpn};
use crate::decode::cm;
use crate::decode::flow::{Flow, FlowTable, MAX_FLOWS, Message, NakKind};
use crate::object::Object;

/// The last line of `--json`.
impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.totals_json().serialize_into(&mut map)?;
        map.serialize_entry("flows", &Flows(self.flows))?;
        if let Some(error) = self.error {
            map.serialize_entry("error", &error.to_string())?;
        }
        map.end()
    }
}

/// There may be many: each is made when it is written.
struct Flows<'a>(&'a FlowTable);

impl Serialize for Flows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flows = self.0.flows().iter().zip(1..);
        serializer.collect_seq(flows.map(|(flow, number)| flow_json(number, flow)))
    }
}

impl Summary<'_> {
    fn totals_json(&self) -> Object {
        let totals = self.totals;
        let tunnels = totals.tunnels.iter();
        let tunnels: Value = tunnels
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        let other = Object::default()
            .with("records", totals.other.sum())
            .with("not_roce", totals.other.foreign)
            .with("ipv6_extensions", totals.other.extensions)
            .with("fragments", totals.other.fragment)
            .with("malformed", totals.other.malformed)
            .with("cut", totals.other.cut)
            .with("unsupported_link_type", totals.other.link_type);
        Object::default()
            .with("type", "summary")
            .with("records", totals.records)
            .with("wire_bytes", totals.wire_bytes)
            .with("first_time", totals.first.map(|time| time.to_string()))
            .with("last_time", totals.last.map(|time| time.to_string()))
            .with("packets", totals.packets)
            .with("icrc_ok", totals.icrc_ok)
            .with("icrc_bad", totals.icrc_bad)
            .with("icrc_cut", totals.icrc_cut)
            .with("icrc_missing", totals.icrc_missing)
            .with("malformed", totals.malformed)
            .with("super_packets", totals.super_packets)
            .with_some("tunnels", (!totals.tunnels.is_empty()).then_some(tunnels))
            .with("filtered", totals.filtered)
            .with("other", other)
            .with("flow_limit", MAX_FLOWS)
            .with("untracked_packets", self.flows.untracked)
    }
}

fn flow_json(number: usize, flow: &Flow) -> Object {
    let c = &flow.counters;
    let duration = flow.duration();
    let cm = by_name(&cm::Kind::NAMES, &c.cm_messages);
    Object::default()
        .with("flow", number)
        .with("src", flow.key.src.to_string())
        .with("src_qpn", src_qpn(flow).map(|qpn| qpn.get()))
        .with("dst", flow.key.dst.to_string())
        .with("dest_qpn", flow.key.dest_qpn.get())
        .with(
            "transport",
            flow.transport.map(|transport| transport.name()),
        )
        .with("reverse_flow", flow.peer.map(|peer| peer + 1))
        .with("packets", c.packets)
        .with("wire_bytes", c.wire_bytes)
        .with("payload_bytes", c.payload_bytes)
        .with("first_time", flow.first.map(|time| time.to_string()))
        .with("last_time", flow.last.map(|time| time.to_string()))
        .with(
            "duration_ns",
            duration.and_then(|time| u64::try_from(time.as_nanos()).ok()),
        )
        .with("bits_per_sec", flow.bits_per_sec())
        .with("messages", by_name(&Message::NAMES, &c.messages))
        .with_some(
            "cm",
            (cm != Value::Object(Default::default())).then_some(cm),
        )
        .with("retransmitted", c.retransmitted)
        .with("retransmitted_bytes", c.retransmitted_bytes)
        .with("gaps", c.gaps)
        .with("missing", c.missing)
        .with("restarts", c.restarts)
        .with("naks", by_name(&NakKind::NAMES, &c.naks))
        .with("rnr_naks", c.rnr_naks)
        .with("cnps", c.cnps)
        .with("ecn_ce", c.ecn_ce)
        .with("icrc_bad", c.icrc_bad)
        .with("cut", c.cut)
        .with("malformed", c.malformed)
}

/// The counts that are not 0.
fn by_name(names: &[(&'static str, &str)], counts: &[u64]) -> Value {
    let all = names.iter().zip(counts);
    let all = all.map(|((name, _), count)| (*name, *count));
    all.filter(|(_, count)| *count > 0).collect()
}

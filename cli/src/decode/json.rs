//! Packets and summaries as JSON, one object per line. docs/observe.md is the schema.
//!
//! Numbers that may exceed the 53 bits of many readers are strings of hexadecimal digits, and so
//! are ICRCs. Times are strings of decimal digits.

use std::io::{self, Write};

use roce_wire::{Bth, ExtHeaders, Syndrome};
use serde::Serialize;

use super::capture::Record;
use super::flow::NakKind;
use super::packet::{Icrc, NotRoce, RocePacket};
use super::refused::Refused;
use super::text;
use crate::object::{Object, hex64};

/// Writes a value and ends the line.
pub(super) fn write_line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The beginning of a file, if there are several.
pub(super) fn file(name: &str) -> Object {
    Object::default().with("type", "file").with("name", name)
}

/// A record that is not a RoCE packet.
pub(super) fn other(number: u64, record: &Record<'_>, other: &NotRoce) -> Object {
    Object::default()
        .with("type", "other")
        .with("number", number)
        .with("time", record.time.map(|time| time.to_string()))
        .with("reason", text::describe(other))
        .with_some("comments", unless_empty(record.comments.texts()))
}

/// A RoCE packet. If it is a NAK, `refused` is the request that it is about.
pub(super) fn packet(packet: &RocePacket, refused: Option<&Refused>) -> Object {
    let envelope = &packet.envelope;
    let vlans: Vec<u16> = envelope.vlans.iter().copied().flatten().collect();
    let tunnel: Vec<String> = envelope.tunnel.iter().map(ToString::to_string).collect();
    let gso = packet.segment.map(|segment| {
        Object::default()
            .with("index", segment.index)
            .with("count", segment.count)
    });
    let headers = Object::default()
        .with("type", "packet")
        .with("number", packet.number)
        .with("time", packet.time.map(|time| time.to_string()))
        .with("wire_len", packet.wire_len)
        .with("captured_len", packet.captured_len)
        .with("src", envelope.src.to_string())
        .with("dst", envelope.dst.to_string())
        .with("src_port", envelope.ports.map(|(src, _)| src))
        .with("dst_port", envelope.ports.map(|(_, dst)| dst))
        .with_some("vlans", unless_empty(vlans))
        .with_some("tunnel", unless_empty(tunnel))
        .with("dscp", envelope.tos >> 2)
        .with("ecn", envelope.tos & 3)
        .with("ttl", envelope.ttl)
        .with_some("ip_id", envelope.ip_id)
        .with_some("gso", gso);
    let headers = match packet.bth {
        Some(bth) => with_bth(headers, bth),
        None => headers,
    };
    with_extended(headers, &packet.ext)
        .with_some("request", refused.map(Refused::json))
        .with("payload_len", packet.payload_len)
        .with_some("cm", packet.cm.as_ref().map(|cm| cm.json().clone()))
        .with("icrc", icrc(packet.icrc))
        .with_some("error", packet.error.map(|error| error.to_string()))
        .with_some("comments", unless_empty(packet.comments.clone()))
}

fn unless_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn with_bth(object: Object, bth: Bth) -> Object {
    let info = bth.opcode.info();
    object
        .with("transport", info.transport.name())
        .with("opcode", bth.opcode.byte())
        .with("opcode_name", info.name)
        .with("solicited", bth.solicited)
        .with("mig_req", bth.mig_req)
        .with("pad", bth.pad)
        .with("tver", bth.version)
        .with("pkey", bth.pkey.0)
        .with("fecn", bth.fecn)
        .with("becn", bth.becn)
        .with("dest_qpn", bth.dest_qpn.get())
        .with("ack_req", bth.ack_req)
        .with("psn", bth.psn.get())
}

fn with_extended(object: Object, ext: &ExtHeaders) -> Object {
    let new = Object::default;
    let deth = ext.deth.map(|h| {
        new()
            .with("qkey", h.qkey.0)
            .with("src_qpn", h.src_qpn.get())
    });
    let feth = ext.flush.map(|h| {
        new()
            .with("placement", h.placement.bits())
            .with("selectivity", h.selectivity.bits())
    });
    let reth = ext.reth.map(|h| {
        new()
            .with("va", hex64(h.va))
            .with("rkey", h.rkey)
            .with("length", h.dma_len)
    });
    let atomic = ext.atomic.map(|h| {
        new()
            .with("va", hex64(h.va))
            .with("rkey", h.rkey)
            .with("swap_or_add", hex64(h.swap_or_add))
            .with("compare", hex64(h.compare))
    });
    object
        .with_some(
            "xrceth",
            ext.xrceth.map(|h| new().with("srqn", h.srqn.get())),
        )
        .with_some("deth", deth)
        .with_some("feth", feth)
        .with_some("reth", reth)
        .with_some("atomic_eth", atomic)
        .with_some("aeth", ext.aeth.map(|h| aeth(h.syndrome, h.msn)))
        .with_some(
            "atomic_ack_eth",
            ext.atomic_ack
                .map(|h| new().with("original", hex64(h.original))),
        )
        .with_some("immdt", ext.imm.map(|imm| imm.0))
        .with_some("ieth", ext.ieth.map(|ieth| ieth.0))
}

fn aeth(syndrome: Syndrome, msn: u32) -> Object {
    let object = Object::default().with("syndrome", syndrome.byte());
    let object = match syndrome {
        Syndrome::Ack(credits) => object
            .with("kind", "ack")
            .with_some("credits", credits.count()),
        Syndrome::RnrNak(timer) => {
            let us = u64::try_from(timer.duration().as_micros());
            object
                .with("kind", "rnr_nak")
                .with_some("timer_us", us.ok())
        }
        Syndrome::Nak(code) => object
            .with("kind", "nak")
            .with("nak", NakKind::of(code).name()),
        Syndrome::Reserved(_) => object.with("kind", "reserved"),
    };
    object.with("msn", msn)
}

fn icrc(icrc: Icrc) -> Object {
    let (verdict, stored, computed) = match icrc {
        Icrc::Ok(value) => ("ok", Some(value), Some(value)),
        Icrc::Bad(mismatch) => ("bad", Some(mismatch.stored), Some(mismatch.computed)),
        Icrc::Cut => ("cut", None, None),
        Icrc::Missing => ("missing", None, None),
    };
    let hex32 = |value| format!("{value:#010x}");
    Object::default()
        .with("verdict", verdict)
        .with_some("stored", stored.map(hex32))
        .with_some("computed", computed.map(hex32))
}

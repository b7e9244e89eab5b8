//! Packets and summaries as JSON, one object per line. docs/observe.md is the schema.
//!
//! Numbers that may exceed the 53 bits of many readers are strings of hexadecimal digits, and so
//! are ICRCs. Times are strings of decimal digits.

use std::io::{self, Write};
use std::net::IpAddr;

use roce_wire::{Bth, ExtHeaders, Syndrome};
use serde::Serialize;

use super::capture::Record;
use super::cm::DecodedCm;
use super::flow::NakKind;
use super::packet::{Icrc, NotRoce, RocePacket};
use super::refused::Refused;
use super::text;

/// Writes a value and ends the line.
pub(super) fn write_line(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The beginning of a file, if there are several.
#[derive(Debug, Serialize)]
pub(super) struct JsonFile<'a> {
    r#type: &'static str,
    name: &'a str,
}

impl<'a> JsonFile<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        Self {
            r#type: "file",
            name,
        }
    }
}

/// A RoCE packet.
#[derive(Debug, Serialize)]
pub(super) struct JsonPacket {
    r#type: &'static str,
    number: u64,
    time: Option<String>,
    wire_len: u32,
    captured_len: u32,
    src: IpAddr,
    dst: IpAddr,
    src_port: Option<u16>,
    dst_port: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlans: Vec<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tunnel: Vec<String>,
    dscp: u8,
    ecn: u8,
    ttl: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_id: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gso: Option<JsonSegment>,
    #[serde(flatten)]
    bth: Option<JsonBth>,
    #[serde(flatten)]
    ext: JsonExt,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Refused>,
    payload_len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cm: Option<DecodedCm>,
    icrc: JsonIcrc,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comments: Vec<String>,
}

#[derive(Debug, Serialize)]
struct JsonSegment {
    index: usize,
    count: usize,
}

#[derive(Debug, Serialize)]
struct JsonBth {
    transport: &'static str,
    opcode: u8,
    opcode_name: &'static str,
    solicited: bool,
    mig_req: bool,
    pad: u8,
    tver: u8,
    pkey: u16,
    fecn: bool,
    becn: bool,
    dest_qpn: u32,
    ack_req: bool,
    psn: u32,
}

#[derive(Debug, Default, Serialize)]
struct JsonExt {
    #[serde(skip_serializing_if = "Option::is_none")]
    xrceth: Option<JsonXrcEth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deth: Option<JsonDeth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    feth: Option<JsonFeth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reth: Option<JsonReth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_eth: Option<JsonAtomicEth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aeth: Option<JsonAeth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_ack_eth: Option<JsonAtomicAckEth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    immdt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ieth: Option<u32>,
}

#[derive(Debug, Serialize)]
struct JsonXrcEth {
    srqn: u32,
}

#[derive(Debug, Serialize)]
struct JsonDeth {
    qkey: u32,
    src_qpn: u32,
}

#[derive(Debug, Serialize)]
struct JsonFeth {
    placement: u8,
    selectivity: u8,
}

#[derive(Debug, Serialize)]
struct JsonReth {
    va: String,
    rkey: u32,
    length: u32,
}

#[derive(Debug, Serialize)]
struct JsonAtomicEth {
    va: String,
    rkey: u32,
    swap_or_add: String,
    compare: String,
}

#[derive(Debug, Serialize)]
struct JsonAeth {
    syndrome: u8,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    credits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timer_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nak: Option<&'static str>,
    msn: u32,
}

#[derive(Debug, Serialize)]
struct JsonAtomicAckEth {
    original: String,
}

#[derive(Debug, Serialize)]
struct JsonIcrc {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    computed: Option<String>,
}

/// A record that is not a RoCE packet.
#[derive(Debug, Serialize)]
pub(super) struct JsonOther {
    r#type: &'static str,
    number: u64,
    time: Option<String>,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    comments: Vec<String>,
}

impl JsonOther {
    pub(super) fn new(number: u64, record: &Record<'_>, other: &NotRoce) -> Self {
        Self {
            r#type: "other",
            number,
            time: record.time.map(|time| time.to_string()),
            reason: text::describe(other),
            comments: record.comments.texts(),
        }
    }
}

impl JsonPacket {
    /// A packet. If it is a NAK, `refused` is the request that it is about.
    pub(super) fn new(packet: &RocePacket, refused: Option<Refused>) -> Self {
        let envelope = &packet.envelope;
        Self {
            r#type: "packet",
            number: packet.number,
            time: packet.time.map(|time| time.to_string()),
            wire_len: packet.wire_len,
            captured_len: packet.captured_len,
            src: envelope.src,
            dst: envelope.dst,
            src_port: envelope.ports.map(|(src, _)| src),
            dst_port: envelope.ports.map(|(_, dst)| dst),
            vlans: envelope.vlans.iter().copied().flatten().collect(),
            tunnel: envelope.tunnel.iter().map(ToString::to_string).collect(),
            dscp: envelope.tos >> 2,
            ecn: envelope.tos & 3,
            ttl: envelope.ttl,
            ip_id: envelope.ip_id,
            gso: packet.segment.map(|segment| JsonSegment {
                index: segment.index,
                count: segment.count,
            }),
            bth: packet.bth.map(JsonBth::from),
            ext: JsonExt::from(&packet.ext),
            request: refused,
            payload_len: packet.payload_len,
            cm: packet.cm.clone(),
            icrc: packet.icrc.into(),
            error: packet.error.map(|error| error.to_string()),
            comments: packet.comments.clone(),
        }
    }
}

impl From<Bth> for JsonBth {
    fn from(bth: Bth) -> Self {
        let info = bth.opcode.info();
        Self {
            transport: info.transport.name(),
            opcode: bth.opcode.byte(),
            opcode_name: info.name,
            solicited: bth.solicited,
            mig_req: bth.mig_req,
            pad: bth.pad,
            tver: bth.version,
            pkey: bth.pkey.0,
            fecn: bth.fecn,
            becn: bth.becn,
            dest_qpn: bth.dest_qpn.get(),
            ack_req: bth.ack_req,
            psn: bth.psn.get(),
        }
    }
}

impl From<&ExtHeaders> for JsonExt {
    fn from(ext: &ExtHeaders) -> Self {
        Self {
            xrceth: ext.xrceth.map(|h| JsonXrcEth { srqn: h.srqn.get() }),
            deth: ext.deth.map(|h| JsonDeth {
                qkey: h.qkey.0,
                src_qpn: h.src_qpn.get(),
            }),
            feth: ext.flush.map(|h| JsonFeth {
                placement: h.placement.bits(),
                selectivity: h.selectivity.bits(),
            }),
            reth: ext.reth.map(|h| JsonReth {
                va: hex64(h.va),
                rkey: h.rkey,
                length: h.dma_len,
            }),
            atomic_eth: ext.atomic.map(|h| JsonAtomicEth {
                va: hex64(h.va),
                rkey: h.rkey,
                swap_or_add: hex64(h.swap_or_add),
                compare: hex64(h.compare),
            }),
            aeth: ext.aeth.map(|h| JsonAeth::new(h.syndrome, h.msn)),
            atomic_ack_eth: ext.atomic_ack.map(|h| JsonAtomicAckEth {
                original: hex64(h.original),
            }),
            immdt: ext.imm.map(|imm| imm.0),
            ieth: ext.ieth.map(|ieth| ieth.0),
        }
    }
}

impl JsonAeth {
    fn new(syndrome: Syndrome, msn: u32) -> Self {
        let mut json = Self {
            syndrome: syndrome.byte(),
            kind: "reserved",
            credits: None,
            timer_us: None,
            nak: None,
            msn,
        };
        match syndrome {
            Syndrome::Ack(credits) => {
                json.kind = "ack";
                json.credits = credits.count();
            }
            Syndrome::RnrNak(timer) => {
                json.kind = "rnr_nak";
                json.timer_us = u64::try_from(timer.duration().as_micros()).ok();
            }
            Syndrome::Nak(code) => {
                json.kind = "nak";
                json.nak = Some(NakKind::of(code).name());
            }
            Syndrome::Reserved(_) => {}
        }
        json
    }
}

impl From<Icrc> for JsonIcrc {
    fn from(icrc: Icrc) -> Self {
        let (verdict, stored, computed) = match icrc {
            Icrc::Ok(value) => ("ok", Some(value), Some(value)),
            Icrc::Bad(mismatch) => ("bad", Some(mismatch.stored), Some(mismatch.computed)),
            Icrc::Cut => ("cut", None, None),
            Icrc::Missing => ("missing", None, None),
        };
        Self {
            verdict,
            stored: stored.map(hex32),
            computed: computed.map(hex32),
        }
    }
}

fn hex32(value: u32) -> String {
    format!("{value:#010x}")
}

fn hex64(value: u64) -> String {
    format!("{value:#018x}")
}

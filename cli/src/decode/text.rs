//! Packets as lines of text.

use std::fmt::Write as _;
use std::io::{self, Write};

use roce_wire::{Credits, ExtHeaders, Syndrome};

use super::capture::{Record, Seconds, Timestamp};
use super::flow::NakKind;
use super::packet::{Envelope, Icrc, NotRoce, RocePacket};
use super::refused::Refused;
use crate::quote::printable;

/// The longest name of an opcode, in characters.
const OPCODE_WIDTH: usize = 34;

/// Appends to a string, which cannot fail.
macro_rules! push {
    ($line:expr, $($format:tt)*) => {{
        let _ = write!($line, $($format)*);
    }};
}

/// Writes packets as lines of text.
#[derive(Debug)]
pub(super) struct Lines {
    /// The time that counts as zero.
    start: Option<Timestamp>,
    /// Width of the widest pair of addresses so far, in characters.
    ends_width: usize,
    has_head: bool,
    line: String,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            start: None,
            // Two IPv4 addresses with ports, which is the usual case.
            ends_width: 37,
            has_head: false,
            line: String::new(),
        }
    }
}

impl Lines {
    /// Writes a RoCE packet. If it is a NAK, `refused` is the request that it is about.
    pub(super) fn packet(
        &mut self,
        packet: &RocePacket,
        refused: Option<&Refused>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.begin(packet.number, packet.time, &ends(&packet.envelope), out)?;
        let line = &mut self.line;
        let envelope = &packet.envelope;
        push!(line, "  {:4} {:>4}", ecn(envelope.tos), envelope.tos >> 2);
        match packet.bth {
            Some(bth) => push!(
                line,
                "  {:OPCODE_WIDTH$}  {}  {}  {}  {:04x}  {}",
                operation(packet, &bth),
                bth.dest_qpn,
                bth.psn,
                flags(&bth),
                bth.pkey.0,
                bth.pad,
            ),
            None => push!(line, "  {:OPCODE_WIDTH$}  {:34}", "?", ""),
        }
        push!(
            line,
            "  {:>4}  {:4}",
            packet.payload_len,
            verdict(packet.icrc)
        );
        details(packet, refused, line);
        self.end(out)
    }

    /// Writes a record that is not a RoCE packet.
    pub(super) fn other(
        &mut self,
        number: u64,
        record: &Record<'_>,
        other: &NotRoce,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.begin(number, record.time, "-", out)?;
        push!(self.line, "  not RoCE: {}", describe(other));
        comments(&record.comments.texts(), &mut self.line);
        self.end(out)
    }

    fn begin(
        &mut self,
        number: u64,
        time: Option<Timestamp>,
        ends: &str,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.ends_width = self.ends_width.max(ends.len());
        let width = self.ends_width;
        if !self.has_head {
            self.has_head = true;
            writeln!(
                out,
                "{:>7}  {:>15}  {:width$}  ECN  DSCP  {:OPCODE_WIDTH$}  DEST QP   PSN       \
                 FLAGS  PKEY  P   LEN  ICRC  DETAILS",
                "NUMBER", "TIME", "SOURCE > DESTINATION", "OPCODE",
            )?;
        }
        let time = match (time, self.start) {
            (Some(time), None) => {
                self.start = Some(time);
                Seconds(0).to_string()
            }
            (Some(time), Some(start)) => Seconds(time.ns_since(start)).to_string(),
            (None, _) => "-".into(),
        };
        self.line.clear();
        push!(self.line, "{number:>7}  {time:>15}  {ends:width$}");
        Ok(())
    }

    fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.line.trim_end())
    }
}

/// The packet's operation: its opcode, except for CM messages, which all have the same opcode.
fn operation(packet: &RocePacket, bth: &roce_wire::Bth) -> String {
    match &packet.cm {
        Some(cm) => format!("CM {} ({})", cm.kind.name(), bth.opcode),
        None => bth.opcode.to_string(),
    }
}

/// Source and destination, with ports if they have any.
fn ends(envelope: &Envelope) -> String {
    use std::net::SocketAddr;
    let Envelope { src, dst, .. } = *envelope;
    match envelope.ports {
        None => format!("{src} > {dst}"),
        Some((from, to)) => format!(
            "{} > {}",
            SocketAddr::new(src, from),
            SocketAddr::new(dst, to)
        ),
    }
}

/// The ECN bits by their names (RFC 3168).
fn ecn(tos: u8) -> &'static str {
    match tos & 3 {
        0 => "-",
        1 => "ECT1",
        2 => "ECT0",
        _ => "CE",
    }
}

/// The flags for solicited event, migration, acknowledge request, and the congestion bits: a letter
/// for each that is set.
fn flags(bth: &roce_wire::Bth) -> String {
    [
        (bth.solicited, 'S'),
        (bth.mig_req, 'M'),
        (bth.ack_req, 'A'),
        (bth.fecn, 'F'),
        (bth.becn, 'B'),
    ]
    .map(|(is_set, letter)| if is_set { letter } else { '-' })
    .iter()
    .collect()
}

fn verdict(icrc: Icrc) -> &'static str {
    match icrc {
        Icrc::Ok(_) => "ok",
        Icrc::Bad(_) => "BAD",
        Icrc::Cut => "cut",
        Icrc::Missing => "none",
    }
}

/// Details that only some packets have.
fn details(packet: &RocePacket, refused: Option<&Refused>, line: &mut String) {
    if let Some(segment) = packet.segment {
        push!(line, "  gso {}/{}", segment.index, segment.count);
    }
    for encapsulation in packet.envelope.tunnel.iter() {
        push!(line, "  in {encapsulation}");
    }
    for vlan in packet.envelope.vlans.iter().flatten() {
        push!(line, "  vlan {vlan}");
    }
    if let Some(bth) = packet.bth.filter(|bth| bth.version != 0) {
        push!(line, "  tver {}", bth.version);
    }
    headers(&packet.ext, line);
    if let Some(refused) = refused {
        push!(line, "  {refused}");
    }
    if let Some(cm) = &packet.cm {
        push!(line, "  {}", cm.brief());
    }
    if let Icrc::Bad(mismatch) = packet.icrc {
        push!(
            line,
            "  icrc stored {:08x} computed {:08x}",
            mismatch.stored,
            mismatch.computed
        );
    }
    if packet.icrc == Icrc::Cut {
        push!(
            line,
            "  {} of {} bytes captured",
            packet.captured_len,
            packet.wire_len
        );
    }
    if let Some(error) = &packet.error {
        push!(line, "  malformed: {error}");
    }
    comments(&packet.comments, line);
}

/// The comments in the file, escaped so that they can't pass for further lines or control the
/// terminal.
fn comments(texts: &[String], line: &mut String) {
    for text in texts {
        push!(line, "  # {}", printable(text));
    }
}

/// The extended headers.
fn headers(ext: &ExtHeaders, line: &mut String) {
    if let Some(xrceth) = ext.xrceth {
        push!(line, "  srq {}", xrceth.srqn);
    }
    if let Some(deth) = ext.deth {
        push!(line, "  qkey {} from QP {}", deth.qkey, deth.src_qpn);
    }
    if let Some(feth) = ext.flush {
        push!(
            line,
            "  flush placement {:#x} selectivity {}",
            feth.placement.bits(),
            feth.selectivity.bits()
        );
    }
    if let Some(reth) = ext.reth {
        push!(
            line,
            "  va {:#018x} rkey {:#010x} length {}",
            reth.va,
            reth.rkey,
            reth.dma_len
        );
    }
    if let Some(atomic) = ext.atomic {
        push!(
            line,
            "  va {:#018x} rkey {:#010x} swap/add {:#x} compare {:#x}",
            atomic.va,
            atomic.rkey,
            atomic.swap_or_add,
            atomic.compare
        );
    }
    if let Some(aeth) = ext.aeth {
        push!(line, "  {} msn {}", syndrome(aeth.syndrome), aeth.msn);
    }
    if let Some(ack) = ext.atomic_ack {
        push!(line, "  original {:#x}", ack.original);
    }
    if let Some(imm) = ext.imm {
        push!(line, "  imm {:#010x}", imm.0);
    }
    if let Some(ieth) = ext.ieth {
        push!(line, "  invalidate rkey {:#010x}", ieth.0);
    }
}

/// An AETH's syndrome in words.
fn syndrome(syndrome: Syndrome) -> String {
    match syndrome {
        Syndrome::Ack(Credits::INVALID) => "ACK".into(),
        Syndrome::Ack(credits) => format!("ACK credits {}", credits.count().unwrap_or_default()),
        Syndrome::RnrNak(timer) => format!("RNR NAK wait {:?}", timer.duration()),
        Syndrome::Nak(code) => format!("NAK {} ({})", NakKind::of(code).title(), code.code()),
        Syndrome::Reserved(byte) => format!("reserved syndrome {byte:#04x}"),
    }
}

/// Why a record is not a RoCE packet.
pub(super) fn describe(other: &NotRoce) -> String {
    match other {
        NotRoce::Foreign(error) | NotRoce::Fragment(error) | NotRoce::Malformed(error) => {
            error.to_string()
        }
        NotRoce::Extensions => {
            "RoCE behind IPv6 extension headers, which RoCEv2 does not have".into()
        }
        NotRoce::Cut => "cut before the transport header".into(),
        NotRoce::LinkType(link_type) => format!("link type {link_type} is not supported"),
    }
}

//! From a captured record to the transport packets in it.

use std::net::IpAddr;

use roce_wire::icrc::IcrcMismatch;
use roce_wire::{
    Bth, ExtHeaders, Frame, IcrcVerdict, NetworkHeader, Packet, ParseError, Reason, UdpHeader,
};

use super::capture::{Record, Timestamp};
use super::cm::DecodedCm;
use super::gso::{self, Gso};
use super::link::{self, Linked, NoFrame};
use super::tunnel::Tunnel;

/// The largest frame, in bytes: the longest IP packet and its link header.
const MAX_FRAME: usize = 65_535 + 64;

/// A transport packet and its context.
#[derive(Clone, Debug)]
pub(super) struct RocePacket {
    /// The number of its record, counted from 1.
    pub(super) number: u64,
    /// When it was captured, if the file has a time.
    pub(super) time: Option<Timestamp>,
    /// Length of the record's packet on the wire, link header included, in bytes.
    pub(super) wire_len: u32,
    /// The number of those bytes that were captured.
    pub(super) captured_len: u32,
    /// Length of the frame that carries the packet, in bytes: `wire_len`, except for segments.
    pub(super) frame_len: usize,
    /// The headers in front of the transport packet.
    pub(super) envelope: Envelope,
    pub(super) segment: Option<Segment>,
    /// The base transport header, if it could be read.
    pub(super) bth: Option<Bth>,
    /// The headers after it.
    pub(super) ext: ExtHeaders,
    /// Length of the payload without padding, in bytes, even if it was not captured.
    pub(super) payload_len: usize,
    /// The CM message that it carries.
    pub(super) cm: Option<DecodedCm>,
    /// The invariant CRC's verdict.
    pub(super) icrc: Icrc,
    /// Why the packet violates the rules of its opcode.
    pub(super) error: Option<ParseError>,
    pub(super) comments: Vec<String>,
}

/// Addresses and marks of the headers in front of a transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// Source and destination port; RoCE v1 has none.
    pub(super) ports: Option<(u16, u16)>,
    /// Type of service or traffic class.
    pub(super) tos: u8,
    /// Time to live or hop limit.
    pub(super) ttl: u8,
    /// Identification of IPv4.
    pub(super) ip_id: Option<u16>,
    /// VLANs, the outer one first.
    pub(super) vlans: [Option<u16>; 2],
    pub(super) tunnel: Tunnel,
}

/// A segment's position in a super-packet, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) index: usize,
    pub(super) count: usize,
}

/// The verdict on a packet's invariant CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Icrc {
    Ok(u32),
    Bad(IcrcMismatch),
    /// The packet was not captured completely.
    Cut,
    /// The packet is too short for an ICRC.
    Missing,
}

impl Icrc {
    fn of(verdict: IcrcVerdict, transport: &[u8]) -> Icrc {
        match (verdict, transport.last_chunk()) {
            (IcrcVerdict::Valid, Some(stored)) => Icrc::Ok(u32::from_le_bytes(*stored)),
            (IcrcVerdict::Invalid(mismatch), _) => Icrc::Bad(mismatch),
            _ => Icrc::Missing,
        }
    }
}

/// Why a record contains no RoCE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRoce {
    /// Another protocol, such as TCP.
    Foreign(ParseError),
    /// A RoCE packet behind IPv6 extension headers, with which RoCEv2 is not defined.
    Extensions,
    /// A fragment. RoCE packets are never fragmented.
    Fragment(ParseError),
    /// Impossible lengths.
    Malformed(ParseError),
    /// Too little was captured to tell.
    Cut,
    /// An unsupported link type.
    LinkType(u16),
}

/// The decoder's state between records.
#[derive(Debug)]
pub(super) struct Decoder {
    /// UDP destination ports to treat as RoCE besides the assigned one.
    ports: Vec<u16>,
    padder: ZeroPadder,
    gso: Gso,
}

/// Buffer for truncated records, padded with zeros to their original length.
#[derive(Debug, Default)]
struct ZeroPadder {
    bytes: Vec<u8>,
    /// The number of leading bytes that may be nonzero.
    dirty: usize,
}

impl ZeroPadder {
    /// Returns `data` padded with zeros to `len` bytes, which exceeds its length.
    fn fill(&mut self, data: &[u8], len: usize) -> &[u8] {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        self.bytes[..data.len()].copy_from_slice(data);
        if self.dirty > data.len() {
            self.bytes[data.len()..self.dirty].fill(0);
        }
        self.dirty = data.len();
        &self.bytes[..len]
    }
}

impl Decoder {
    pub(super) fn new(ports: &[u16]) -> Self {
        Self {
            ports: ports.to_vec(),
            padder: ZeroPadder::default(),
            gso: Gso::default(),
        }
    }

    /// Decodes the record, number `number` in its file, and passes each transport packet in it to
    /// `each`. Returns why the record contains no RoCE packet, if it contains none.
    ///
    /// # Errors
    /// The errors of `each`.
    pub(super) fn decode<E>(
        &mut self,
        record: &Record<'_>,
        number: u64,
        mut each: impl FnMut(&RocePacket) -> Result<(), E>,
    ) -> Result<Option<NotRoce>, E> {
        if !link::is_supported(record.link_type) {
            return Ok(Some(NotRoce::LinkType(record.link_type)));
        }
        let captured = record.data.len();
        let full_len = (record.wire_len as usize).min(MAX_FRAME);
        let cut = captured < full_len;
        let bytes = match cut {
            true => self.padder.fill(record.data, full_len),
            false => record.data,
        };
        let Linked {
            frame,
            link_len,
            tunnel,
        } = match link::parse(record.link_type, bytes, &self.ports) {
            Ok(linked) => linked,
            Err(NoFrame::Extensions) => return Ok(Some(NotRoce::Extensions)),
            Err(NoFrame::Error(error)) => return Ok(Some(classify(error, cut))),
        };
        let transport_at = link_len + frame.repr().header_len();
        let available = captured.saturating_sub(transport_at);
        let mut packet = RocePacket::blank(record, number, &frame);
        packet.envelope.tunnel = tunnel;
        if available < frame.transport.len() {
            packet.read_cut(frame.transport, available);
            each(&packet)?;
            return Ok(None);
        }
        let verdict = frame.icrc_verdict();
        let segment_len = match verdict {
            IcrcVerdict::Invalid(_) => self.gso.segment_len(&frame),
            _ => None,
        };
        match segment_len {
            None => {
                packet.icrc = Icrc::of(verdict, frame.transport);
                packet.read(frame.transport);
                each(&packet)?;
            }
            Some(len) => {
                for segment in packet.segments(&frame, transport_at, len) {
                    each(&segment)?;
                }
            }
        }
        Ok(None)
    }
}

impl RocePacket {
    /// A packet in `frame` before any transport header is parsed.
    fn blank(record: &Record<'_>, number: u64, frame: &Frame<'_>) -> Self {
        RocePacket {
            number,
            time: record.time,
            wire_len: record.wire_len,
            captured_len: record.data.len() as u32,
            frame_len: record.wire_len as usize,
            envelope: Envelope::of(frame),
            segment: None,
            bth: None,
            ext: ExtHeaders::NONE,
            payload_len: 0,
            cm: None,
            icrc: Icrc::Cut,
            error: None,
            comments: record.comments.texts(),
        }
    }

    /// The packets of a super-packet's segments of `len` bytes. They start as copies of this blank
    /// one. `transport_at` bytes precede each.
    fn segments(
        &self,
        frame: &Frame<'_>,
        transport_at: usize,
        len: usize,
    ) -> impl Iterator<Item = RocePacket> {
        let count = frame.transport.len().div_ceil(len);
        frame
            .transport
            .chunks(len)
            .enumerate()
            .map(move |(i, transport)| {
                let index = i + 1;
                let mut packet = RocePacket {
                    segment: Some(Segment { index, count }),
                    frame_len: transport_at + transport.len(),
                    icrc: Icrc::of(gso::verdict(frame, i, transport), transport),
                    ..self.clone()
                };
                packet.read(transport);
                packet
            })
    }

    /// Parses the headers of a complete transport packet.
    fn read(&mut self, transport: &[u8]) {
        match Packet::parse(transport) {
            Ok(packet) => {
                self.bth = Some(packet.bth);
                self.ext = packet.ext;
                self.payload_len = packet.payload.len();
                self.cm = DecodedCm::parse(&packet.bth, packet.payload);
            }
            Err(error) => {
                self.bth = Bth::parse(transport).ok();
                self.error = Some(error);
            }
        }
    }

    /// Parses the headers of a transport packet of which only the first `available` bytes were
    /// captured; the others are zeros.
    fn read_cut(&mut self, transport: &[u8], available: usize) {
        let there = &transport[..available];
        let Ok(bth) = Bth::parse(there) else { return };
        let headers = bth.opcode.info().headers;
        let Ok((ext, _)) = ExtHeaders::parse(headers, &there[Bth::LEN..]) else {
            self.bth = Some(bth);
            return;
        };
        // Parse the whole packet to get its lengths.
        self.read(transport);
        self.bth = Some(bth);
        self.ext = ext;
        // The CM message would contain padding zeros that were not on the wire.
        self.cm = None;
    }
}

impl Envelope {
    fn of(frame: &Frame<'_>) -> Envelope {
        let vlans = frame.link.map(|link| link.vlans).unwrap_or_default();
        let (src, dst, tos, ttl, ip_id): (IpAddr, IpAddr, _, _, _) = match frame.network {
            NetworkHeader::V4 {
                src,
                dst,
                tos,
                ttl,
                id,
                ..
            } => (src.into(), dst.into(), tos, ttl, Some(id)),
            NetworkHeader::V6 {
                src,
                dst,
                traffic_class,
                hop_limit,
                ..
            } => (src.into(), dst.into(), traffic_class, hop_limit, None),
            NetworkHeader::Grh(grh) => (
                grh.sgid.into(),
                grh.dgid.into(),
                grh.traffic_class,
                grh.hop_limit,
                None,
            ),
        };
        let ports = |udp: UdpHeader| (udp.src_port, udp.dst_port);
        Envelope {
            src,
            dst,
            ports: frame.udp.map(ports),
            tos,
            ttl,
            ip_id,
            vlans: vlans.map(|tag| tag.map(|tag| tag.vid())),
            tunnel: Tunnel::default(),
        }
    }
}

fn classify(error: ParseError, cut: bool) -> NotRoce {
    match error.reason {
        Reason::Fragment { .. } => NotRoce::Fragment(error),
        Reason::Unsupported { .. } => NotRoce::Foreign(error),
        _ if cut => NotRoce::Cut,
        _ => NotRoce::Malformed(error),
    }
}

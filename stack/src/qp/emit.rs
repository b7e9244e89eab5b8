//! Writes one packet into a slot of the port.

use crate::counters::{Counters, Stat};
use crate::encapsulation::{IpCovered, TxMeta, gid};
use crate::memory::AccessError;
use crate::qp::Cx;
use crate::transmit::{Flow, ReserveError, Sequenced, Transmit, TxSlot};
use core::hint::cold_path;
use roce_wire::icrc::{IpHeader, Unsealed};
use roce_wire::{PacketRepr, Qpn, UDP_PORT};
use std::net::IpAddr;

/// Why a packet did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmitError {
    /// The port has no room now.
    Full,
    /// The payload's memory may not be accessed.
    Access(AccessError),
}

/// A packet to be written, without its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) path: &'a TxMeta,
    /// The QP that sends it.
    pub(crate) from_qp: Qpn,
    /// Its place in the flow; `None` if the NIC will not report it to the port as acknowledged.
    pub(crate) sequenced: Option<Sequenced>,
    pub(crate) repr: &'a PacketRepr,
    pub(crate) payload_len: usize,
    /// No other packet follows for now.
    pub(crate) is_last: bool,
}

/// The fate of a packet that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The port can never send it.
    Unsendable,
    Sent,
    /// Sent, and the port keeps its memory until
    /// [`Transmit::acknowledged`](crate::Transmit::acknowledged) reports it.
    Kept,
}

/// Builds a packet in place: headers, payload by `fill`, padding, ICRC. It has no position, so it
/// is not reported to the port as acknowledged.
///
/// A packet that the port can never send is treated as sent and lost, so that retries and their
/// limits apply to it as to any other loss. It is counted in [`Stat::Unsendable`].
#[inline]
pub(crate) fn emit(
    cx: &mut Cx<'_>,
    port: &mut dyn Transmit,
    path: &TxMeta,
    from_qp: Qpn,
    repr: &PacketRepr,
    payload_len: usize,
    fill: impl FnOnce(&Cx<'_>, &mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<(), EmitError> {
    let packet = Outgoing {
        path,
        from_qp,
        sequenced: None,
        repr,
        payload_len,
        is_last: false,
    };
    emit_packet(cx, port, &packet, fill).map(drop)
}

/// Builds a packet in place. Returns whether the port keeps its memory.
#[inline]
pub(crate) fn emit_packet(
    cx: &mut Cx<'_>,
    port: &mut dyn Transmit,
    packet: &Outgoing<'_>,
    fill: impl FnOnce(&Cx<'_>, &mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<bool, EmitError> {
    // Recorded first, because what is recorded is in registers now.
    let bth = &packet.repr.bth;
    cx.observe.sent(bth.opcode, bth.psn, packet.payload_len);
    let written = match write_packet(port, packet, |out| fill(cx, out)) {
        Ok(written) => written,
        Err(error) => {
            cold_path();
            cx.observe.not_sent();
            return Err(error);
        }
    };
    count_packets(&mut cx.nic.counters, written, 1, packet.payload_len);
    if written == Written::Unsendable {
        cold_path();
        cx.observe.unsendable();
    }
    Ok(written == Written::Kept)
}

/// Builds a packet in place, without a QP. Counts nothing.
#[inline]
pub(crate) fn write_packet(
    port: &mut dyn Transmit,
    packet: &Outgoing<'_>,
    fill: impl FnOnce(&mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<Written, EmitError> {
    let Outgoing {
        path,
        repr,
        payload_len,
        ..
    } = *packet;
    let flow = Flow {
        from_qp: packet.from_qp,
        to_qp: repr.bth.dest_qpn,
    };
    let len = repr.buffer_len(payload_len);
    let slot = match port.reserve_run(path, flow, packet.sequenced, len, 1) {
        Ok(slot) => slot,
        Err(refused) => {
            cold_path();
            return match refused {
                ReserveError::Full => Err(EmitError::Full),
                ReserveError::Unsendable => Ok(Written::Unsendable),
            };
        }
    };
    let TxSlot {
        bytes,
        src_port,
        ip,
        kept,
    } = slot;
    let ip = ip_header(path, ip);
    seal_into(bytes, ip, src_port, repr, payload_len, fill)?;
    if packet.is_last {
        port.commit_last();
    } else {
        port.commit();
    }
    Ok(if kept { Written::Kept } else { Written::Sent })
}

/// Packets of one length to be written that follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) path: &'a TxMeta,
    pub(crate) from_qp: Qpn,
    /// The first packet's place in the flow.
    pub(crate) sequenced: Option<Sequenced>,
    pub(crate) payload_len: usize,
    /// The most packets to write.
    pub(crate) count: usize,
}

/// Builds packets in place, at most as many as the port has room for in one datagram. `repr` is the
/// first packet's, and `advance` makes each packet's the next one's. Returns the number of packets and their
/// fate. If the payload of one can't be accessed, sends none. Counts nothing.
#[inline]
pub(crate) fn write_run(
    port: &mut dyn Transmit,
    run: &Run<'_>,
    repr: &mut PacketRepr,
    mut fill: impl FnMut(&mut Unsealed<'_>) -> Result<(), AccessError>,
    advance: impl Fn(&mut PacketRepr),
) -> Result<(usize, Written), EmitError> {
    let flow = Flow {
        from_qp: run.from_qp,
        to_qp: repr.bth.dest_qpn,
    };
    let len = repr.buffer_len(run.payload_len);
    let slot = match port.reserve_run(run.path, flow, run.sequenced, len, run.count) {
        Ok(slot) => slot,
        Err(ReserveError::Full) => return Err(EmitError::Full),
        Err(ReserveError::Unsendable) => {
            advance(repr);
            return Ok((1, Written::Unsendable));
        }
    };
    let (src_port, kept) = (slot.src_port, slot.kept);
    let mut ip = ip_header(run.path, slot.ip);
    let mut packets = 0;
    for bytes in slot.bytes.chunks_exact_mut(len) {
        seal_into(bytes, ip, src_port, repr, run.payload_len, &mut fill)?;
        advance(repr);
        if let IpHeader::V4 { id, .. } = &mut ip {
            *id = id.wrapping_add(1);
        }
        packets += 1;
    }
    port.commit();
    Ok((packets, if kept { Written::Kept } else { Written::Sent }))
}

/// Writes a packet, BTH to ICRC, into `bytes`.
#[inline(always)]
fn seal_into(
    bytes: &mut [u8],
    ip: IpHeader,
    src_port: u16,
    repr: &PacketRepr,
    payload_len: usize,
    fill: impl FnOnce(&mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<(), EmitError> {
    let at = repr.emit_headers(bytes, payload_len);
    let mut unsealed = Unsealed::new(ip, src_port, UDP_PORT, bytes, at..at + payload_len);
    fill(&mut unsealed).map_err(EmitError::Access)?;
    // rule: CA17-22-sent
    unsealed.seal();
    Ok(())
}

/// Counts what [`write_packet`] or [`write_run`] did with `packets` packets.
#[inline]
pub(crate) fn count_packets(
    counters: &mut Counters,
    written: Written,
    packets: usize,
    payload_len: usize,
) {
    if written != Written::Unsendable {
        counters.add(Stat::TxPackets, packets as u64);
        counters.add(Stat::TxBytes, (packets * payload_len) as u64);
    } else {
        counters.add(Stat::Unsendable, packets as u64);
    }
}

/// The fields of the packet's IP header that the ICRC covers.
// rule: A17.4.2-version, CA17-40-connected-version, CA17-42-datagram-version
#[inline(always)]
fn ip_header(path: &TxMeta, covered: IpCovered) -> IpHeader {
    let (id, flags_fragment) = match covered {
        IpCovered::V4 { id, flags_fragment } => (id, flags_fragment),
        IpCovered::V6 | IpCovered::V4Hidden => (0, 0x4000),
        IpCovered::Grh => {
            cold_path();
            return IpHeader::Grh {
                sgid: gid(path.src),
                dgid: gid(path.dst),
            };
        }
        IpCovered::OnHost => return IpHeader::OnHost,
    };
    match (path.src, path.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => IpHeader::V4 {
            src: src.octets(),
            dst: dst.octets(),
            id,
            flags_fragment,
        },
        (src, dst) => IpHeader::V6 {
            src: gid(src),
            dst: gid(dst),
        },
    }
}

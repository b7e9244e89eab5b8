//! Writes one packet into a slot of the port.

use crate::counters::{Counters, Stat};
use crate::encapsulation::{IpCovered, TxMeta, gid};
use crate::memory::AccessError;
use crate::qp::Cx;
use crate::recorder::Entry;
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
    cx.record(|| Entry::sent(bth.opcode, bth.psn, packet.payload_len));
    let written = match write_packet(port, packet, |out| fill(cx, out)) {
        Ok(written) => written,
        Err(error) => {
            cold_path();
            cx.unrecord();
            return Err(error);
        }
    };
    count_packet(cx.counters, written, packet.payload_len);
    if written == Written::Unsendable {
        cold_path();
        cx.mark_unsendable();
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
    let slot = match port.reserve(path, flow, packet.sequenced, repr.buffer_len(payload_len)) {
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
    let at = repr.emit_headers(bytes, payload_len);
    let ip = ip_header(path, ip);
    let mut unsealed = Unsealed::new(ip, src_port, UDP_PORT, bytes, at..at + payload_len);
    fill(&mut unsealed).map_err(EmitError::Access)?;
    // rule: A17.3.3-sent
    unsealed.seal();
    if packet.is_last {
        port.commit_last();
    } else {
        port.commit();
    }
    Ok(if kept { Written::Kept } else { Written::Sent })
}

/// Counts what [`write_packet`] did.
#[inline]
pub(crate) fn count_packet(counters: &mut Counters, written: Written, payload_len: usize) {
    if written != Written::Unsendable {
        counters.count(Stat::TxPackets);
        counters.add(Stat::TxBytes, payload_len as u64);
    } else {
        counters.count(Stat::Unsendable);
    }
}

/// The fields of the packet's IP header that the ICRC covers.
// rule: A17.3.1-version
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

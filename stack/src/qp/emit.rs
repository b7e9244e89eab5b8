//! Writes one packet into a slot of the port.

use crate::counters::{Counters, Stat};
use crate::encapsulation::{IpCovered, TxMeta, gid};
use crate::memory::AccessError;
use crate::qp::Cx;
use crate::transmit::{ReserveError, Transmit, TxSlot};
use core::hint::cold_path;
use roce_wire::icrc::{IpHeader, Unsealed};
use roce_wire::{PacketRepr, UDP_PORT};
use std::net::IpAddr;

/// Why a packet did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmitError {
    /// The port has no room now.
    Full,
    /// The payload's memory may not be accessed.
    Access(AccessError),
}

/// Builds the packet in place: headers, payload by `fill`, padding, ICRC.
///
/// A packet that the port can never send counts as sent and lost: retries and their
/// limits then apply to it as to any other loss.
#[inline]
pub(crate) fn emit(
    cx: &mut Cx<'_>,
    port: &mut dyn Transmit,
    path: &TxMeta,
    repr: &PacketRepr,
    payload_len: usize,
    fill: impl FnOnce(&Cx<'_>, &mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<(), EmitError> {
    emit_of(cx, port, path, repr, payload_len, false, fill)
}

/// The same; `is_last` if nothing at all follows for now.
#[inline]
pub(crate) fn emit_of(
    cx: &mut Cx<'_>,
    port: &mut dyn Transmit,
    path: &TxMeta,
    repr: &PacketRepr,
    payload_len: usize,
    is_last: bool,
    fill: impl FnOnce(&Cx<'_>, &mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<(), EmitError> {
    let sent = write_packet(port, path, repr, payload_len, is_last, |out| fill(cx, out))?;
    count_packet(cx.counters, sent, payload_len);
    Ok(())
}

/// The same without a QP, and nothing is counted yet. Returns whether the packet was sent,
/// or lost because the port can never send it.
#[inline]
pub(crate) fn write_packet(
    port: &mut dyn Transmit,
    path: &TxMeta,
    repr: &PacketRepr,
    payload_len: usize,
    is_last: bool,
    fill: impl FnOnce(&mut Unsealed<'_>) -> Result<(), AccessError>,
) -> Result<bool, EmitError> {
    let slot = match port.reserve(path, repr.bth.dest_qpn, repr.buffer_len(payload_len)) {
        Ok(slot) => slot,
        Err(refused) => {
            cold_path();
            return match refused {
                ReserveError::Full => Err(EmitError::Full),
                ReserveError::Unsendable => Ok(false),
            };
        }
    };
    let TxSlot {
        bytes,
        src_port,
        ip,
    } = slot;
    let at = repr.emit_headers(bytes, payload_len);
    let ip = ip_header(path, ip);
    let mut packet = Unsealed::new(ip, src_port, UDP_PORT, bytes, at..at + payload_len);
    fill(&mut packet).map_err(EmitError::Access)?;
    // rule: A17.3.3-sent
    packet.seal();
    if is_last {
        port.commit_last();
    } else {
        port.commit();
    }
    Ok(true)
}

/// Counts what [`write_packet`] did.
#[inline]
pub(crate) fn count_packet(counters: &mut Counters, sent: bool, payload_len: usize) {
    if sent {
        counters.count(Stat::TxPackets);
        counters.add(Stat::TxBytes, payload_len as u64);
    } else {
        counters.count(Stat::Unsendable);
    }
}

/// What the ICRC covers of the IP header that the packet will carry.
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

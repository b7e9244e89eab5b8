//! Super-packets: UDP datagrams that the kernel has not segmented yet.
//!
//! A socket with UDP_SEGMENT sends several transport packets as one datagram. If the link segments
//! in hardware or not at all (veth, lo), a capture shows that datagram. On the wire it is several
//! packets of equal length, the last one possibly shorter, whose IPv4 identifications count up from
//! the first. Only the ICRC shows where one ends and the next begins.

use roce_wire::icrc::{self, IcrcMismatch, IpHeader};
use roce_wire::{Bth, Frame, ICRC_LEN, IcrcVerdict};

/// The shortest transport packet, in bytes: headers without payload.
const SHORTEST: usize = Bth::LEN + ICRC_LEN;

/// The longest, in bytes: a payload of 4096 and the headers of an XRC RDMA WRITE with
/// immediate. Rounded up.
const LONGEST: usize = 4096 + 64;

/// State that carries over from one super-packet to the next.
#[derive(Debug, Default)]
pub(super) struct Gso {
    /// The last length found, which is usually that of the next one, too.
    last: usize,
}

impl Gso {
    /// The length of each segment but the last, if the frame is a super-packet: its first segment,
    /// and so every other one, has an ICRC of its own.
    pub(super) fn segment_len(&mut self, frame: &Frame<'_>) -> Option<usize> {
        let transport = frame.transport;
        frame.udp.and(frame.network.ip_header())?;
        Bth::parse(transport).ok()?;
        let longest = LONGEST.min(transport.len() - 1);
        let last = Some(self.last).filter(|len| (SHORTEST..=longest).contains(len));
        let found = last
            .into_iter()
            .chain((SHORTEST..=longest).step_by(4))
            .filter(|&len| fits(len, transport.len()))
            .find(|&len| is_valid(frame, 0, &transport[..len]))?;
        self.last = found;
        Some(found)
    }
}

/// Whether splitting into segments of `len` bytes leaves a valid last packet.
fn fits(len: usize, total: usize) -> bool {
    let last = total % len;
    last == 0 || last >= SHORTEST
}

fn is_valid(frame: &Frame<'_>, index: usize, transport: &[u8]) -> bool {
    verdict(frame, index, transport) == IcrcVerdict::Valid
}

/// The ICRC's verdict on segment number `index` of a super-packet, counted from 0.
pub(super) fn verdict(frame: &Frame<'_>, index: usize, transport: &[u8]) -> IcrcVerdict {
    let (Some(ip), Some(udp), Some((covered, stored))) = (
        frame.network.ip_header(),
        frame.udp,
        transport.split_last_chunk::<ICRC_LEN>(),
    ) else {
        return IcrcVerdict::Missing;
    };
    let stored = u32::from_le_bytes(*stored);
    let compute = |ip| icrc::compute(&ip, udp.src_port, udp.dst_port, covered);
    let computed = compute(with_id(ip, index));
    // The kernel may also join received packets whose identifications do not count up.
    if stored == computed || stored == compute(ip) {
        IcrcVerdict::Valid
    } else {
        IcrcVerdict::Invalid(IcrcMismatch { stored, computed })
    }
}

/// The IP header of segment number `index`.
fn with_id(ip: IpHeader, index: usize) -> IpHeader {
    match ip {
        IpHeader::V4 {
            src,
            dst,
            id,
            flags_fragment,
        } => IpHeader::V4 {
            src,
            dst,
            id: id.wrapping_add(index as u16),
            flags_fragment,
        },
        other => other,
    }
}

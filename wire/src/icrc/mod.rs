//! The invariant CRC, which every packet ends with (RoCEv2 Annex A17.3.3;
//! IBTA 1.7, 7.8.1).
//!
//! It is Ethernet's CRC-32 over
//!
//! 1. eight bytes of ones, instead of InfiniBand's link header,
//! 2. the IP header, with the fields that routers change replaced by ones: type of
//!    service, time to live and header checksum of IPv4; traffic class, flow label
//!    and hop limit of IPv6 and of the GRH,
//! 3. the UDP header, with ones for its checksum (RoCE v1 has none),
//! 4. the BTH, with ones for its byte 4 (FECN, BECN and reserved bits),
//! 5. everything after the BTH, including padding,
//!
//! and is stored least significant byte first. Here an ICRC is a `u32`, whose little-endian bytes
//! are those on the wire.
//!
//! The functions take no lengths. They derive the lengths in the IP and UDP headers from the length
//! of the transport bytes.

use core::fmt;
use core::hint::cold_path;

use crc32fast::Hasher;

use crate::{Grh, ICRC_LEN, UDP_PORT};

#[cfg(all(target_arch = "x86_64", feature = "std"))]
mod clmul;
mod gf2;
mod headers_twice;
mod unsealed;

use gf2::{image, register};
pub use headers_twice::{cover_again, cover_less};
pub use unsealed::Unsealed;

/// The fields of an IP header, or of the GRH in its place, that the ICRC covers, except lengths and
/// constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpHeader {
    /// IPv4 without options.
    V4 {
        /// Source address.
        src: [u8; 4],
        /// Destination address.
        dst: [u8; 4],
        /// Identification.
        id: u16,
        /// Flags in the upper three bits and fragment offset in the others; 0x4000
        /// is "don't fragment".
        flags_fragment: u16,
    },
    /// IPv6 without extension headers.
    V6 {
        /// Source address.
        src: [u8; 16],
        /// Destination address.
        dst: [u8; 16],
    },
    /// RoCE v1's GRH. No UDP header follows it, so the port parameters are ignored.
    Grh {
        /// Source GID.
        sgid: [u8; 16],
        /// Destination GID.
        dgid: [u8; 16],
    },
    /// None: the packet never leaves the host's memory. Its ICRC is 0.
    OnHost,
}

/// The flags of an IPv4 packet that must not be fragmented.
pub const DONT_FRAGMENT: u16 = 0x4000;

/// The stored ICRC of a packet differs from the one computed over its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IcrcMismatch {
    /// The stored ICRC; zero if the packet is too short for one.
    pub stored: u32,
    /// The computed ICRC that `stored` was compared with. [`verify_hidden_v4`] says which header
    /// fields it assumes.
    pub computed: u32,
}

impl fmt::Display for IcrcMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ICRC: found {:#010x}, expected {:#010x}",
            self.stored, self.computed
        )
    }
}

impl fmt::Debug for IcrcMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for IcrcMismatch {}

/// The fields of the IPv4 header that a socket does not report, recovered by [`verify_hidden_v4`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HiddenV4 {
    /// Identification.
    pub id: u16,
    /// Whether the flag "don't fragment" was set.
    pub dont_fragment: bool,
}

/// The ICRC of a packet whose bytes from the BTH to the padding are
/// `transport_without_icrc`.
#[inline(always)]
// rule: CA17-22-cover
pub fn compute(ip: &IpHeader, src_port: u16, dst_port: u16, transport_without_icrc: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    if let Some(icrc) = compute_v4(ip, src_port, dst_port, transport_without_icrc) {
        return icrc;
    }
    if *ip == IpHeader::OnHost {
        return 0;
    }
    compute_with_tables(ip, src_port, dst_port, transport_without_icrc)
}

/// Computes with carry-less multiplication, if the CPU supports it, for packets of RoCEv2 over IPv4
/// that are at least as long as an acknowledgement.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
#[inline(always)]
fn compute_v4(ip: &IpHeader, src_port: u16, dst_port: u16, transport: &[u8]) -> Option<u32> {
    let (first, second) = headers_v4(ip, src_port, dst_port, transport)?;
    if transport.len() < LONG {
        clmul::register(first, second, transport).map(|register| !register)
    } else {
        compute_long_v4(first, second, transport)
    }
}

/// The bytes before the transport: four bytes of ones, and the masked IPv4 and UDP headers.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
#[inline(always)]
fn headers_v4(
    ip: &IpHeader,
    src_port: u16,
    dst_port: u16,
    transport: &[u8],
) -> Option<(u128, u128)> {
    let &IpHeader::V4 {
        src,
        dst,
        id,
        flags_fragment,
    } = ip
    else {
        cold_path();
        return None;
    };
    let len = udp_len(transport);
    let be = |field: u16| u128::from(field.to_be());
    // rule: CA17-22-ones
    // A register of all ones is zero after four bytes of ones. So the computation starts with a
    // register of zero after four of the eight bytes that stand for the link header. The other four
    // and the headers are 32 bytes.
    let first =
        V4_FIRST | be(len.wrapping_add(V4_LEN)) << 48 | be(id) << 64 | be(flags_fragment) << 80;
    let second = u128::from(u32::from_le_bytes(src))
        | u128::from(u32::from_le_bytes(dst)) << 32
        | be(src_port) << 64
        | be(dst_port) << 80
        | be(len) << 96
        // rule: CA17-22-masked-udp
        | 0xffff << 112;
    Some((first, second))
}

/// As `compute_v4`, but uses `crc32fast` for all bytes after the first block.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
#[inline(never)]
fn compute_long_v4(first: u128, second: u128, transport: &[u8]) -> Option<u32> {
    let (front, rest) = transport.split_at_checked(clmul::BLOCK)?;
    let register = clmul::register(first, second, front)?;
    Some(continue_crc(!register, rest))
}

/// The number of transport bytes from which `crc32fast` is faster than `clmul`.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
const LONG: usize = 256;

/// Computes with tables, for all packets.
#[inline(never)]
fn compute_with_tables(
    ip: &IpHeader,
    src_port: u16,
    dst_port: u16,
    transport_without_icrc: &[u8],
) -> u32 {
    // The register is the sum (XOR) of each field's contribution (`gf2::image`), for all header
    // fields up to byte 3 of the BTH. The distance of a field is the number of bytes from its first
    // byte to the end of byte 3 of the BTH. The constants contain the usual field values, so only
    // other values take work.
    let len = udp_len(transport_without_icrc);
    let mut register = image(src_port.to_be_bytes(), 12) ^ image(len.to_be_bytes(), 8);
    if dst_port != UDP_PORT {
        cold_path();
        register ^= image((dst_port ^ UDP_PORT).to_be_bytes(), 10);
    }
    match *ip {
        IpHeader::V4 {
            src,
            dst,
            id,
            flags_fragment,
        } => {
            register ^= V4_CONSTANTS
                ^ image(len.wrapping_add(V4_LEN).to_be_bytes(), 30)
                ^ image(src, 20)
                ^ image(dst, 16);
            if id != 0 {
                register ^= image(id.to_be_bytes(), 28);
            }
            if flags_fragment != DONT_FRAGMENT {
                cold_path();
                register ^= image((flags_fragment ^ DONT_FRAGMENT).to_be_bytes(), 26);
            }
        }
        IpHeader::V6 { src, dst } => {
            // The addresses are long enough for a pass of their own. The resulting register is
            // added to the bytes that follow: the ports.
            let mut addresses = [0; 32];
            addresses[..16].copy_from_slice(&src);
            addresses[16..].copy_from_slice(&dst);
            let before = V6_START ^ image(len.to_be_bytes(), 4);
            let after = !continue_crc(!before, &addresses);
            register ^= V6_CONSTANTS ^ image(after.to_le_bytes(), 12);
        }
        IpHeader::Grh { sgid, dgid } => {
            cold_path();
            return compute_v1(sgid, dgid, transport_without_icrc);
        }
        IpHeader::OnHost => return 0,
    }
    match transport_without_icrc.split_first_chunk::<4>() {
        Some((&front, rest)) => finish(!(register ^ image(front, 4)), rest),
        // No packet is shorter than four bytes, but the CRC of such bytes is well defined.
        None => finish_short(register, transport_without_icrc),
    }
}

/// The ICRC of a RoCE v1 packet from `sgid` to `dgid`. Not inlined, to keep the path of RoCEv2
/// packets short.
#[inline(never)]
fn compute_v1(sgid: [u8; 16], dgid: [u8; 16], transport_without_icrc: &[u8]) -> u32 {
    let grh = Grh {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (transport_without_icrc.len() + ICRC_LEN) as u16,
        next_header: Grh::NEXT_HEADER_BTH,
        hop_limit: 0,
        sgid,
        dgid,
    };
    compute_grh(&grh.to_bytes(), transport_without_icrc)
}

/// The ICRC of a RoCE v1 packet, computed over its GRH as on the wire and its bytes from the BTH to
/// the padding.
// rule: A16-icrc
pub fn compute_grh(grh: &[u8; Grh::LEN], transport_without_icrc: &[u8]) -> u32 {
    let mut head = *grh;
    mask_v6(&mut head);
    let crc = continue_crc(!ONES, &head);
    over_transport(crc, transport_without_icrc)
}

/// The ICRC over headers as they are on the wire: an IP header, including options, and a UDP
/// header, whatever the lengths in them. Together they have 28 to 68 bytes.
pub(crate) fn compute_raw(headers: &[u8], transport_without_icrc: &[u8]) -> u32 {
    const LONGEST: usize = 60 + UDP_LEN;
    debug_assert!((20 + UDP_LEN..=LONGEST).contains(&headers.len()));
    let mut head = [0; LONGEST];
    let len = headers.len().min(LONGEST);
    head[..len].copy_from_slice(&headers[..len]);
    if head[0] >> 4 == 4 {
        head[1] = 0xff;
        head[8] = 0xff;
        head[10..12].fill(0xff);
    } else {
        mask_v6(&mut head);
    }
    // rule: CA17-22-masked-udp
    // The UDP checksum.
    head[len.saturating_sub(2)..len].fill(0xff);
    let crc = continue_crc(!ONES, &head[..len]);
    over_transport(crc, transport_without_icrc)
}

/// Computes the ICRC of `transport`, the bytes from the BTH to the ICRC, and writes it to the last
/// four of them. Does nothing with fewer than four bytes.
#[inline(always)]
pub fn seal(ip: &IpHeader, src_port: u16, dst_port: u16, transport: &mut [u8]) {
    if let Some((covered, stored)) = transport.split_last_chunk_mut::<ICRC_LEN>() {
        // rule: CA17-22-order
        *stored = compute(ip, src_port, dst_port, covered).to_le_bytes();
    }
}

/// Checks the ICRC of `transport_with_icrc`, the bytes from the BTH to the ICRC.
///
/// # Errors
/// If the ICRC is wrong, or if the packet is too short for one.
#[inline(always)]
pub fn verify(
    ip: &IpHeader,
    src_port: u16,
    dst_port: u16,
    transport_with_icrc: &[u8],
) -> Result<(), IcrcMismatch> {
    let (covered, stored) = split(transport_with_icrc)?;
    let computed = compute(ip, src_port, dst_port, covered);
    if stored == computed {
        Ok(())
    } else {
        Err(IcrcMismatch { stored, computed })
    }
}

/// Checks the ICRC of a packet from an IPv4 socket, which hides the identification and the flags
/// that the ICRC covers.
///
/// CRCs are linear. The function computes the ICRC for identification 0 and "don't fragment", and
/// XORs it with the stored ICRC. The result depends only on the bits in which the two fields differ
/// from these values. That mapping is a multiplication by a power of x, so it can be inverted to
/// recover the fields. The function accepts any values of the two fields, so a valid packet always
/// passes. This costs 17 of the 32 bits of the check: 16 for the identification and one for the
/// flag. With the other 15 bits, one corrupted packet in 2^15 passes as a valid one with another
/// identification or flag. A caller that knows its peer's values should compare the recovered
/// fields with them. At the lengths of RoCE packets, the few single-bit flips that pass recover the
/// wrong flag, so a caller that knows the flag finds them. In an error, `computed` is the ICRC for
/// identification 0 and "don't fragment".
///
/// # Errors
/// If the ICRC is wrong for every identification, or if the packet is too short for one.
#[inline]
// rule: A17.3.3-hidden
pub fn verify_hidden_v4(
    src: [u8; 4],
    dst: [u8; 4],
    src_port: u16,
    dst_port: u16,
    transport_with_icrc: &[u8],
) -> Result<HiddenV4, IcrcMismatch> {
    let (covered, stored) = split(transport_with_icrc)?;
    let assumed = IpHeader::V4 {
        src,
        dst,
        id: 0,
        flags_fragment: DONT_FRAGMENT,
    };
    let computed = compute(&assumed, src_port, dst_port, covered);
    if stored == computed {
        return Ok(HiddenV4 {
            id: 0,
            dont_fragment: true,
        });
    }
    recover(stored ^ computed, covered.len()).ok_or(IcrcMismatch { stored, computed })
}

/// The identification and flag that explain `difference`: the XOR of the stored ICRC with the one
/// for identification 0 and "don't fragment". `covered_len` is the number of transport bytes that
/// the ICRC covers.
fn recover(difference: u32, covered_len: usize) -> Option<HiddenV4> {
    // From the identification to the end of the UDP header.
    const HEADERS: usize = 16 + UDP_LEN;
    let [id0, id1, flags, fragment] =
        gf2::unshift(difference, HEADERS + covered_len)?.to_le_bytes();
    let dont_fragment = match (flags, fragment) {
        (0x00, 0x00) => true,
        (0x40, 0x00) => false,
        _ => return None,
    };
    Some(HiddenV4 {
        id: u16::from_be_bytes([id0, id1]),
        dont_fragment,
    })
}

const UDP_LEN: usize = 8;
const V4_LEN: u16 = 20;
const PROTOCOL_UDP: u8 = 17;

/// The CRC register after the ones that stand for the link header.
// rule: CA17-22-ones
const ONES: u32 = register(&[0xff; 8]);

/// The register after all headers, followed by four bytes of zeros in place of the BTH's first
/// four. Addresses, lengths, identification and source port are zero.
#[rustfmt::skip]
// rule: CA17-22-masked-ipv4
const V4_CONSTANTS: u32 = register(&[
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    // IPv4: version and length, type of service, total length, identification, flags,
    // time to live, protocol, checksum, addresses.
    0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, PROTOCOL_UDP, 0xff, 0xff,
    0, 0, 0, 0, 0, 0, 0, 0,
    // UDP: ports, length, checksum.
    0, 0, 0x12, 0xb7, 0, 0, 0xff, 0xff,
    0, 0, 0, 0,
]);

/// Four bytes of ones, and the IPv4 header up to the checksum, with zeros for length,
/// identification and flags.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
#[rustfmt::skip]
// rule: CA17-22-masked-ipv4
const V4_FIRST: u128 = u128::from_le_bytes([
    0xff, 0xff, 0xff, 0xff,
    0x45, 0xff, 0, 0, 0, 0, 0, 0, 0xff, PROTOCOL_UDP, 0xff, 0xff,
]);

/// The register after the IPv6 header up to the hop limit, with zero for the length.
#[rustfmt::skip]
const V6_START: u32 = register(&[
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    // Version, traffic class and flow label, payload length, next header, hop limit.
    0x6f, 0xff, 0xff, 0xff, 0, 0, PROTOCOL_UDP, 0xff,
]);

/// The images of the destination port and the checksum in the UDP header.
const V6_CONSTANTS: u32 = image(UDP_PORT.to_be_bytes(), 10) ^ image([0xff; 2], 6);

/// The UDP length for these bytes, modulo 2^16. Bytes that are too long for a datagram can't come
/// from a network.
#[inline(always)]
fn udp_len(transport_without_icrc: &[u8]) -> u16 {
    (UDP_LEN + transport_without_icrc.len() + ICRC_LEN) as u16
}

/// Ones for traffic class, flow label and hop limit.
// rule: CA17-22-masked-ipv6
fn mask_v6(header: &mut [u8]) {
    header[0] |= 0x0f;
    header[1..4].fill(0xff);
    header[7] = 0xff;
}

/// Continues `crc`, which covers the headers, over the bytes from the BTH on.
fn over_transport(crc: u32, transport: &[u8]) -> u32 {
    match transport.split_first_chunk::<4>() {
        Some((front, rest)) => finish(continue_crc(crc, front), rest),
        None => continue_crc(crc, transport),
    }
}

/// Continues `crc` over `rest`. `crc` covers the bytes up to byte 3 of the BTH.
///
/// The first byte of `rest` counts as 0xff. A CRC XORs the next byte into the lowest eight bits of
/// its register. XORing the register with the byte's complement acts as if the byte were 0xff, so
/// no byte needs to be copied.
#[inline(always)]
fn finish(crc: u32, rest: &[u8]) -> u32 {
    // rule: CA17-22-masked-bth
    let missing = rest.first().map_or(0, |byte| !byte);
    continue_crc(crc ^ u32::from(missing), rest)
}

/// The CRC of fewer than four transport bytes. `register` is the register after the headers and
/// four bytes of zeros.
#[cold]
fn finish_short(register: u32, transport: &[u8]) -> u32 {
    match gf2::unshift(register, 4) {
        Some(register) => continue_crc(!register, transport),
        None => !register,
    }
}

#[inline(always)]
// rule: CA17-22-padding
fn continue_crc(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

#[inline(always)]
fn split(transport_with_icrc: &[u8]) -> Result<(&[u8], u32), IcrcMismatch> {
    match transport_with_icrc.split_last_chunk() {
        Some((covered, stored)) => Ok((covered, u32::from_le_bytes(*stored))),
        None => Err(IcrcMismatch {
            stored: 0,
            computed: !ONES,
        }),
    }
}

#[cfg(test)]
mod tests;

//! Checks the ICRC of received packets.

use super::fragmentation::Fragmentation;
use crate::encapsulation::{IpCovered, RxMeta, gid};
use core::hint::cold_path;
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{ICRC_LEN, Opcode, UDP_PORT};
use std::net::IpAddr;

/// Checks the ICRC, as far as the port reports the fields that it covers (RoCEv2 Annex A17.3.3).
/// Accepts that of Soft-RoCE for a FLUSH.
pub(super) fn icrc_is_valid(
    fragmentation: &mut Fragmentation,
    meta: &RxMeta,
    transport: &[u8],
) -> bool {
    if is_valid(fragmentation, meta, transport) {
        return true;
    }
    cold_path();
    is_flush_of_soft_roce(fragmentation, meta, transport)
}

/// The most bytes of a FLUSH from the BTH on.
const LONGEST_FLUSH: usize = 64;

/// Whether it is a FLUSH whose ICRC covers the headers twice, as those of Soft-RoCE of kernel 7.2 do.
#[cold]
fn is_flush_of_soft_roce(
    fragmentation: &mut Fragmentation,
    meta: &RxMeta,
    transport: &[u8],
) -> bool {
    let opcode = transport.first().and_then(|byte| Opcode::from_byte(*byte));
    let is_flush = matches!(opcode, Some(Opcode::RC_FLUSH | Opcode::XRC_FLUSH));
    let mut copy = [0; LONGEST_FLUSH];
    let Some(copy) = copy.get_mut(..transport.len()).filter(|_| is_flush) else {
        return false;
    };
    copy.copy_from_slice(transport);
    let Some((headers, stored)) = copy.split_last_chunk_mut::<ICRC_LEN>() else {
        return false;
    };
    let icrc = icrc::cover_less(u32::from_le_bytes(*stored), headers);
    *stored = icrc.to_le_bytes();
    is_valid(fragmentation, meta, copy)
}

// rule: A17.3.2.1-source-port
fn is_valid(fragmentation: &mut Fragmentation, meta: &RxMeta, transport: &[u8]) -> bool {
    match (&meta.src, &meta.dst, &meta.ip) {
        (_, _, IpCovered::OnHost) => true,
        // rule: A17.3.3-hidden
        (IpAddr::V4(src), IpAddr::V4(dst), IpCovered::V4Hidden) => {
            let (source, dst) = (src.octets(), dst.octets());
            icrc::verify_hidden_v4(source, dst, meta.src_port, UDP_PORT, transport)
                .is_ok_and(|found| fragmentation.agrees(*src, meta.src_port, found.dont_fragment))
        }
        (IpAddr::V4(src), IpAddr::V4(dst), &IpCovered::V4 { id, flags_fragment }) => {
            let ip = IpHeader::V4 {
                src: src.octets(),
                dst: dst.octets(),
                id,
                flags_fragment,
            };
            icrc::verify(&ip, meta.src_port, UDP_PORT, transport).is_ok()
        }
        // rule: A16-icrc
        (src, dst, IpCovered::Grh) => {
            cold_path();
            let ip = IpHeader::Grh {
                sgid: gid(*src),
                dgid: gid(*dst),
            };
            icrc::verify(&ip, meta.src_port, UDP_PORT, transport).is_ok()
        }
        (IpAddr::V6(src), IpAddr::V6(dst), _) => {
            let ip = IpHeader::V6 {
                src: src.octets(),
                dst: dst.octets(),
            };
            icrc::verify(&ip, meta.src_port, UDP_PORT, transport).is_ok()
        }
        // The addresses and the covered fields are of different address families.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: A17.3.3-hidden
    /// There are bits each of which, if it is flipped, gives the packet the ICRC of a packet with
    /// another identification and "don't fragment" clear. An IPv4 socket once accepted one such
    /// packet.
    #[test]
    fn no_flipped_bit_passes_as_a_clear_dont_fragment() {
        let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let meta = RxMeta {
            src: src.into(),
            dst: dst.into(),
            src_port: 0xc000,
            traffic_class: 0,
            ip: IpCovered::V4Hidden,
        };
        let mut transport = vec![0x5a; 12 + 4096 + 4];
        let ip = IpHeader::V4 {
            src,
            dst,
            id: 7,
            flags_fragment: 0x4000,
        };
        icrc::seal(&ip, meta.src_port, UDP_PORT, &mut transport);

        let mut fragmentation = Fragmentation::default();
        assert!(icrc_is_valid(&mut fragmentation, &meta, &transport));
        let mut ambiguous = 0;
        // The ICRC does not cover byte 4.
        for bit in (0..transport.len() * 8).filter(|bit| bit / 8 != 4) {
            transport[bit / 8] ^= 1 << (bit % 8);
            let found = icrc::verify_hidden_v4(src, dst, meta.src_port, UDP_PORT, &transport);
            ambiguous += usize::from(found.is_ok());
            assert!(
                !icrc_is_valid(&mut fragmentation, &meta, &transport),
                "{bit}"
            );
            transport[bit / 8] ^= 1 << (bit % 8);
            assert!(icrc_is_valid(&mut fragmentation, &meta, &transport));
        }
        assert_ne!(ambiguous, 0, "no flip could have passed");
    }
}

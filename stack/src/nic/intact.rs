//! Checks the ICRC of received packets.

use super::fragmentation::Fragmentation;
use crate::encapsulation::{IpCovered, RxMeta, gid};
use core::hint::cold_path;
use roce_wire::UDP_PORT;
use roce_wire::icrc::{self, IpHeader};
use std::net::IpAddr;

// rule: A17.3.2-source-port
/// Checks the ICRC, as far as the port reports the fields that it covers (RoCEv2 Annex A17.3.3).
pub(super) fn icrc_is_valid(
    fragmentation: &mut Fragmentation,
    meta: &RxMeta,
    transport: &[u8],
) -> bool {
    match (&meta.src, &meta.dst, &meta.ip) {
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

//! Whether a packet is as it was sent.

use crate::encapsulation::{IpCovered, RxMeta, gid};
use core::hint::cold_path;
use roce_wire::UDP_PORT;
use roce_wire::icrc::{self, IpHeader};
use std::net::IpAddr;

// rule: A17.3.2-source-port
/// Checks the ICRC, as far as the port saw what it covers (RoCEv2 Annex A17.3.3).
pub(super) fn icrc_is_right(meta: &RxMeta, transport: &[u8]) -> bool {
    match (&meta.src, &meta.dst, &meta.ip) {
        (IpAddr::V4(src), IpAddr::V4(dst), IpCovered::V4Hidden) => {
            let (src, dst) = (src.octets(), dst.octets());
            icrc::verify_hidden_v4(src, dst, meta.src_port, UDP_PORT, transport).is_ok()
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
        // A port that contradicts itself about the family.
        _ => false,
    }
}

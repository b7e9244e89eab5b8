//! Frames that others made, whole, in hex: what hardware and other software send.

use std::vec::Vec;

use crate::{
    Aeth, Bth, Credits, ExtHeaders, Frame, IcrcVerdict, NetworkHeader, Opcode, PKey, PathMtu, Psn,
    Qpn, Reth, Syndrome, icrc,
};

/// A CNP that a ConnectX-4 Lx sent (scapy, test/contrib/roce.uts).
pub(crate) const CNP: &str = "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a";
/// RoCE v1, an RC RDMA WRITE Only of 5 bytes that Mellanox hardware sent (scapy,
/// test/contrib/roce.uts).
pub(crate) const V1_WRITE: &str = "7cfe90753cd87cfe90753cd889156020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000020a70ffff0000010a80a788bc000055d4c0726000000047b3000000050000000001000000e3d856bb";
/// RoCE v1, an RC Acknowledge that Mellanox hardware sent (scapy,
/// test/contrib/roce.uts).
pub(crate) const V1_ACK: &str = "7cfe90753cd87cfe90753cd889156020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f0000021140ffff0000010900a788c00000000525f0c038";
/// A UC SEND Only over IPv4 that scapy made (test/contrib/roce.uts).
pub(crate) const UC_V4: &str = "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3";
/// A UC SEND Only over IPv6 that scapy made (test/contrib/roce.uts).
pub(crate) const UC_V6: &str = "248a07a8fa22248a07a8fa2286dd6e21face002c11ff2022000000000000000000000000102320230000000000000000000000001024c00012b7002ce7c52460ffff000000d300cf17104630818be28935d90e9a95505401be885e5000003e5b743b";

/// All of them.
pub(crate) const ALL: [(&str, &str); 5] = [
    ("CNP", CNP),
    ("V1_WRITE", V1_WRITE),
    ("V1_ACK", V1_ACK),
    ("UC_V4", UC_V4),
    ("UC_V6", UC_V6),
];

/// The bytes of a hex string.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}
#[test]
fn all_parse_and_verify() {
    for (name, hex) in ALL {
        let bytes = unhex(hex);
        let frame = Frame::parse_ethernet(&bytes).expect(name);
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid, "{name}");
        std::println!("{name} {:?} {:?}", frame, frame.packet());
        std::println!("udp sum {:x?}", frame.repr().udp_checksum(frame.transport));
        let mut out = std::vec![0; frame.repr().buffer_len(frame.transport.len())];
        frame.repr().emit(&mut out, frame.transport);
        assert_eq!(out, bytes, "{name}");
    }
}

//! Packets that hardware and other software were observed to send.

use std::vec;

use crate::testing::emit;
use crate::{
    Aeth, Bth, ExtHeaders, Frame, FrameRepr, IcrcVerdict, NetworkHeader, Opcode, PacketRepr, Psn,
    Qpn, Syndrome, UdpHeader, icrc,
};

/// Parses packets of peers, each of which differs from the usual hardware in a few properties.
// trap: legal-frames
#[test]
fn peers_of_all_kinds_are_understood() {
    struct Peer {
        src_port: u16,
        tos: u8,
        id: u16,
        flags_fragment: u16,
        mig_req: bool,
        syndrome: u8,
        credits: Option<u32>,
    }
    let hardware = Peer {
        src_port: 69,
        tos: 0x02,
        id: 0,
        flags_fragment: 0x4000,
        mig_req: true,
        syndrome: 0x05,
        credits: Some(6),
    };
    let peers = [
        Peer {
            src_port: 72,
            syndrome: 0x06,
            credits: Some(8),
            ..hardware
        },
        // Soft-RoCE of Linux.
        Peer {
            src_port: 49935,
            tos: 0,
            id: 0xbeef,
            mig_req: false,
            syndrome: 0x1f,
            credits: None,
            ..hardware
        },
        // One end of a public capture.
        Peer {
            tos: 0x10,
            flags_fragment: 0,
            id: 0x1234,
            ..hardware
        },
        hardware,
    ];
    for peer in peers {
        let (src, dst) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let network = NetworkHeader::V4 {
            src,
            dst,
            tos: peer.tos,
            ttl: 64,
            id: peer.id,
            flags_fragment: peer.flags_fragment,
            options: &[],
        };
        let packet = PacketRepr {
            bth: Bth {
                mig_req: peer.mig_req,
                ..Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::from_bits(69), Psn::new(7))
            },
            ext: ExtHeaders {
                aeth: Some(Aeth {
                    syndrome: Syndrome::from_byte(peer.syndrome),
                    msn: 1,
                }),
                ..ExtHeaders::NONE
            },
        };
        let mut transport = emit(&packet, &[]);
        let ip = network.ip_header().unwrap();
        icrc::seal(&ip, peer.src_port, 4791, &mut transport);
        let udp = Some(UdpHeader {
            src_port: peer.src_port,
            dst_port: 4791,
            checksum: 0,
        });
        let repr = FrameRepr {
            link: None,
            network,
            udp,
        };
        let mut bytes = vec![0; repr.buffer_len(transport.len())];
        repr.emit(&mut bytes, &transport);

        let frame = Frame::parse_ip(&bytes).unwrap();
        assert_eq!(frame.repr(), repr);
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
        let parsed = frame.packet().unwrap();
        assert_eq!(parsed.bth.mig_req, peer.mig_req);
        let Syndrome::Ack(credits) = parsed.ext.aeth.unwrap().syndrome else {
            panic!("{:?}", parsed.ext.aeth);
        };
        assert_eq!(credits.count(), peer.credits);
        let hidden = icrc::verify_hidden_v4(src, dst, peer.src_port, 4791, &transport).unwrap();
        assert_eq!(hidden.id, peer.id);
        assert_eq!(hidden.dont_fragment, peer.flags_fragment == 0x4000);
    }
}

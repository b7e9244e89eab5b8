//! `roce decode` and tshark agree, field by field, on a packet of each opcode in each
//! kind of frame. The tests that make captures in the lab compare those.

mod cm;
mod tunnels;

use std::fs;
use std::path::{Path, PathBuf};

use roce_tests::decode::{assert_decode_agrees, decode};
use roce_wire::icrc::{self, DONT_FRAGMENT};
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, FlushPlacement, FlushSelectivity,
    FrameRepr, Ieth, ImmDt, Link, NakCode, NetworkHeader, Opcode, PKey, PacketRepr, PayloadRule,
    Psn, QKey, Qpn, Reth, RnrTimer, Syndrome, UDP_PORT, UdpHeader, VlanTag, XrcEth,
};

/// A file that is deleted at the end of its test.
struct Capture(PathBuf);

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Capture {
    /// Writes a pcap file, link type Ethernet, microseconds, little-endian.
    fn write(name: &str, frames: &[Vec<u8>]) -> Self {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        for word in [0x0004_0002, 0, 0, 262_144, 1_u32] {
            file.extend(word.to_le_bytes());
        }
        for (i, frame) in (0..).zip(frames) {
            let len = u32::try_from(frame.len()).expect("a short frame");
            for word in [1_700_000_000_u32, i, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
        let name = format!("roce-{}-{name}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, file).expect("the temporary directory can be written");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// The encapsulation of a frame.
#[derive(Clone, Copy)]
struct Envelope {
    is_v6: bool,
    has_vlan: bool,
}

const ENVELOPES: [Envelope; 4] = [
    Envelope {
        is_v6: false,
        has_vlan: false,
    },
    Envelope {
        is_v6: false,
        has_vlan: true,
    },
    Envelope {
        is_v6: true,
        has_vlan: false,
    },
    Envelope {
        is_v6: true,
        has_vlan: true,
    },
];

impl Envelope {
    /// A frame around packets that are sealed as segments of one datagram.
    fn around(self, packets: &[(PacketRepr, Vec<u8>)]) -> Vec<u8> {
        let network = if self.is_v6 {
            let address = |last| [0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last];
            NetworkHeader::V6 {
                src: address(1),
                dst: address(2),
                traffic_class: 0x6a,
                flow_label: 0xface1,
                hop_limit: 63,
            }
        } else {
            NetworkHeader::V4 {
                src: [10, 1, 2, 3],
                dst: [10, 4, 5, 6],
                tos: 0x69,
                ttl: 62,
                id: 0x1234,
                flags_fragment: DONT_FRAGMENT,
                options: &[],
            }
        };
        let tag = VlanTag {
            tpid: 0x8100,
            tci: 0x6123,
        };
        // A source port that tshark associates with another protocol.
        let ports = (69, UDP_PORT);
        let repr = FrameRepr {
            link: Some(Link {
                dst: [2, 0, 0, 0, 0, 2],
                src: [2, 0, 0, 0, 0, 1],
                vlans: [self.has_vlan.then_some(tag), None],
            }),
            network,
            udp: Some(UdpHeader {
                src_port: ports.0,
                dst_port: ports.1,
                checksum: 0,
            }),
        };
        let mut all = Vec::new();
        for (i, (packet, payload)) in (0..).zip(packets) {
            let mut transport = vec![0; packet.buffer_len(payload.len())];
            let at = packet.emit_headers(&mut transport, payload.len());
            transport[at..][..payload.len()].copy_from_slice(payload);
            let mut ip = network.ip_header().expect("no options");
            if let icrc::IpHeader::V4 { id, .. } = &mut ip {
                *id += i;
            }
            icrc::seal(&ip, ports.0, ports.1, &mut transport);
            all.extend(transport);
        }
        let mut frame = vec![0; repr.buffer_len(all.len())];
        repr.emit(&mut frame, &all);
        frame
    }
}

/// Headers whose fields all have different values, with the bits of `salt` as flags.
fn packet(opcode: Opcode, salt: u8) -> PacketRepr {
    let bit = |n: u8| salt >> n & 1 != 0;
    let syndrome = match salt % 4 {
        0 => Syndrome::from_byte(0x1f),
        1 => Syndrome::from_byte(salt % 31),
        2 => Syndrome::RnrNak(RnrTimer::from_code(salt & 0x1f).expect("five bits")),
        _ => Syndrome::Nak(NakCode::from_code(salt / 4 % 5)),
    };
    let salt = u32::from(salt);
    PacketRepr {
        bth: Bth {
            solicited: bit(0),
            mig_req: bit(1),
            ack_req: bit(2),
            fecn: bit(3),
            becn: bit(4),
            pkey: PKey(0x8000 | salt as u16),
            ..Bth::new(
                opcode,
                Qpn::from_bits(0x12_3400 | salt),
                Psn::new(0xff_ff00 | salt),
            )
        },
        ext: ExtHeaders {
            xrceth: Some(XrcEth {
                srqn: Qpn::from_bits(0x77_0000 | salt),
            }),
            deth: Some(Deth {
                qkey: QKey(0x8765_4300 | salt),
                src_qpn: Qpn::from_bits(0xab_cd00 | salt),
            }),
            flush: Some(Feth {
                placement: FlushPlacement::PERSISTENCE,
                selectivity: FlushSelectivity::Region,
            }),
            reth: Some(Reth {
                va: 0xfedc_ba98_7654_3200 | u64::from(salt),
                rkey: 0x1122_3300 | salt,
                dma_len: 0x4455_6600 | salt,
            }),
            atomic: Some(AtomicEth {
                va: 0xfedc_ba98_7654_3208,
                rkey: 0x9988_7700 | salt,
                swap_or_add: u64::MAX - u64::from(salt),
                compare: 0x8000_0000_0000_0000 | u64::from(salt),
            }),
            aeth: Some(Aeth {
                syndrome,
                msn: 0x55_aa00 | salt,
            }),
            atomic_ack: Some(AtomicAckEth {
                original: u64::MAX / 3,
            }),
            imm: Some(ImmDt(0xdead_be00 | salt)),
            ieth: Some(Ieth(0xfeed_fa00 | salt)),
        },
    }
}

/// Payloads that the opcode allows: with each pad count, and long ones. They do not resemble
/// headers of other protocols.
fn payloads(opcode: Opcode) -> Vec<Vec<u8>> {
    let lengths: &[usize] = match opcode.info().payload {
        PayloadRule::None => &[0],
        PayloadRule::Eight => &[8],
        PayloadRule::ExactlyMtu => &[256, 4096],
        PayloadRule::OneToMtu => &[1, 2, 3, 4, 1021],
        PayloadRule::UpToMtu => &[0, 1, 2, 3, 4, 4096],
    };
    lengths.iter().map(|&len| payload(len)).collect()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| 0xc1 ^ (i % 31) as u8).collect()
}

#[test]
fn on_every_opcode_in_every_frame() {
    let mut frames = Vec::new();
    for envelope in ENVELOPES {
        for opcode in Opcode::all() {
            for payload in payloads(opcode) {
                let salt = (frames.len() % 251) as u8;
                frames.push(envelope.around(&[(packet(opcode, salt), payload)]));
            }
        }
    }
    let capture = Capture::write("every-opcode", &frames);
    assert_eq!(assert_decode_agrees(capture.path()), frames.len());
}

#[test]
fn on_every_syndrome() {
    let syndrome = |byte| Aeth {
        syndrome: Syndrome::from_byte(byte),
        msn: 0,
    };
    let frames: Vec<_> = (0..=255)
        .map(|byte| {
            let mut repr = packet(Opcode::RC_ACKNOWLEDGE, byte);
            repr.ext.aeth = Some(syndrome(byte));
            ENVELOPES[0].around(&[(repr, Vec::new())])
        })
        .collect();
    let capture = Capture::write("every-syndrome", &frames);
    assert_eq!(assert_decode_agrees(capture.path()), 256);
}

/// tshark decodes a super-packet as its first packet, with the rest as payload.
#[test]
fn on_super_packets() {
    let segments: Vec<_> = (0..20)
        .map(|salt| (packet(Opcode::RC_WRITE_MIDDLE, salt), payload(1024)))
        .collect();
    let frames: Vec<_> = ENVELOPES.iter().map(|e| e.around(&segments)).collect();
    let capture = Capture::write("super-packets", &frames);
    assert_eq!(assert_decode_agrees(capture.path()), 80);
    let packets = decode(capture.path());
    assert!(packets.iter().all(|packet| packet["gso"]["count"] == 20));
}

/// The comparison itself detects differences.
#[test]
#[should_panic(expected = "ICRC \"bad\"")]
fn a_wrong_icrc_is_no_agreement() {
    let mut frame = ENVELOPES[0].around(&[(packet(Opcode::RC_SEND_ONLY, 1), payload(8))]);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    let capture = Capture::write("wrong-icrc", &[frame]);
    assert_decode_agrees(capture.path());
}

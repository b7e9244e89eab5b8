//! An arbitrary packet in an arbitrary frame is emitted, sealed, and parsed back to the same value.
//! If one bit changes and the ICRC covers it, the check fails.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, FlushPlacement, FlushSelectivity,
    Frame, FrameRepr, Grh, Headers, IcrcVerdict, Ieth, ImmDt, Link, NetworkHeader, Opcode, PKey,
    PacketRepr, ParseError, Psn, QKey, Qpn, Reth, Syndrome, UDP_PORT, UdpHeader, VlanTag, XrcEth,
    icrc,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// An index into the opcodes, so that none is illegal.
    opcode: u8,
    flags: u8,
    pkey: u16,
    dest_qpn: u32,
    psn: u32,
    words: [u64; 4],
    /// Selects the Ethernet header, VLAN tags and IP version.
    frame: u8,
    addresses: [u8; 32],
    id_and_class: [u8; 6],
    src_port: u16,
    checksum: u16,
    flipped_bit: u16,
    payload: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let frame = frame_of(&input);
    let packet = packet_of(&input);
    let Some(payload) = legal_payload(&packet, input.payload) else {
        return;
    };

    let mut transport = vec![0xaa; packet.buffer_len(payload.len())];
    let at = packet.emit_headers(&mut transport, payload.len());
    transport[at..][..payload.len()].copy_from_slice(payload);
    seal(&frame, &mut transport);
    let mut bytes = vec![0xaa; frame.buffer_len(transport.len())];
    assert_eq!(frame.emit(&mut bytes, &transport), bytes.len());

    let parsed = parse(&frame, &bytes).expect("what was emitted parses");
    assert_eq!(parsed.transport, transport);
    assert_eq!(parsed.icrc_verdict(), IcrcVerdict::Valid);
    let again = parsed.packet().expect("what was emitted parses");
    assert_eq!(again.payload, payload);
    assert_eq!(again.ext, packet.ext);
    let pad = again.bth.pad;
    assert_eq!(again.bth, Bth { pad, ..packet.bth });

    let mut out = vec![0x55; bytes.len()];
    parsed.repr().emit(&mut out, parsed.transport);
    assert_eq!(out, bytes);

    // The ICRC covers all of the transport packet except byte 4.
    let bit = usize::from(input.flipped_bit) % (8 * transport.len());
    let first = bytes.len() - transport.len();
    bytes[first + bit / 8] ^= 1 << (bit % 8);
    let damaged = parse(&frame, &bytes).expect("the frame's headers are untouched");
    let valid = damaged.icrc_verdict() == IcrcVerdict::Valid;
    assert_eq!(valid, bit / 8 == 4);
});

fn parse<'a>(frame: &FrameRepr<'_>, bytes: &'a [u8]) -> Result<Frame<'a>, ParseError> {
    match frame.link {
        Some(_) => Frame::parse_ethernet(bytes),
        None => Frame::parse_ip(bytes),
    }
}

/// The longest prefix of the bytes that the opcode allows as payload, if there is one.
fn legal_payload<'a>(packet: &PacketRepr, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let rule = packet.bth.opcode.info().payload;
    [bytes.len(), 8, 0]
        .into_iter()
        .filter(|&len| len <= bytes.len().min(4096))
        .find(|&len| rule.admits(len))
        .map(|len| &bytes[..len])
}

fn seal(frame: &FrameRepr<'_>, transport: &mut [u8]) {
    match (frame.network, frame.udp) {
        (NetworkHeader::Grh(mut grh), _) => {
            grh.payload_len = transport.len() as u16;
            let (covered, stored) = transport.split_last_chunk_mut().expect("room");
            *stored = icrc::compute_grh(&grh.to_bytes(), covered).to_le_bytes();
        }
        (network, Some(udp)) => {
            let ip = network.ip_header().expect("IP without options");
            icrc::seal(&ip, udp.src_port, udp.dst_port, transport);
        }
        (_, None) => unreachable!("IP goes with UDP"),
    }
}

fn frame_of(input: &Input<'_>) -> FrameRepr<'static> {
    let [a, b, c, d, e, f] = input.id_and_class;
    let (low, high) = input.addresses.split_at(16);
    let src: [u8; 16] = low.try_into().expect("16");
    let dst: [u8; 16] = high.try_into().expect("16");
    let tag = |bit, tpid| {
        let tci = u16::from_be_bytes([a, b]);
        (input.frame & bit != 0).then_some(VlanTag { tpid, tci })
    };
    let network = match input.frame % 3 {
        0 => NetworkHeader::V4 {
            src: *src.first_chunk().expect("4"),
            dst: *dst.first_chunk().expect("4"),
            tos: a,
            ttl: b,
            id: u16::from_be_bytes([c, d]),
            flags_fragment: u16::from(e & 0xc0) << 8,
            options: &[],
        },
        1 => NetworkHeader::V6 {
            src,
            dst,
            traffic_class: a,
            flow_label: u32::from_be_bytes([0, b & 0xf, c, d]),
            hop_limit: e,
        },
        _ => NetworkHeader::Grh(Grh {
            traffic_class: a,
            flow_label: u32::from_be_bytes([0, b & 0xf, c, d]),
            payload_len: 0,
            next_header: Grh::NEXT_HEADER_BTH,
            hop_limit: e,
            sgid: src,
            dgid: dst,
        }),
    };
    let is_v1 = matches!(network, NetworkHeader::Grh(_));
    let outer = tag(0x80, 0x88a8);
    FrameRepr {
        // Without a link header, nothing distinguishes a GRH from an IPv6 header.
        link: (is_v1 || f & 1 != 0).then_some(Link {
            dst: *dst.first_chunk().expect("6"),
            src: *src.first_chunk().expect("6"),
            vlans: [outer, outer.and(tag(0x40, 0x8100))],
        }),
        network,
        udp: (!is_v1).then_some(UdpHeader {
            src_port: input.src_port,
            dst_port: UDP_PORT,
            checksum: input.checksum,
        }),
    }
}

fn packet_of(input: &Input<'_>) -> PacketRepr {
    let opcode = Opcode::all()
        .cycle()
        .nth(usize::from(input.opcode))
        .expect("endless");
    let flag = |bit: u8| input.flags >> bit & 1 != 0;
    let has = |header| opcode.info().headers.contains(header);
    let [w0, w1, w2, w3] = input.words;
    let (half0, half1) = (w0 as u32, (w0 >> 32) as u32);
    PacketRepr {
        bth: Bth {
            opcode,
            solicited: flag(0),
            mig_req: flag(1),
            pad: 0,
            version: 0,
            pkey: PKey(input.pkey),
            fecn: flag(2),
            becn: flag(3),
            dest_qpn: Qpn::from_bits(input.dest_qpn),
            ack_req: flag(4),
            psn: Psn::new(input.psn),
        },
        ext: ExtHeaders {
            xrceth: has(Headers::XRCETH).then_some(XrcEth {
                srqn: Qpn::from_bits(half0),
            }),
            deth: has(Headers::DETH).then_some(Deth {
                qkey: QKey(half0),
                src_qpn: Qpn::from_bits(half1),
            }),
            flush: has(Headers::FETH).then_some(Feth {
                placement: FlushPlacement::from_bits(w0 as u8),
                selectivity: FlushSelectivity::from_bits((w0 >> 8) as u8),
            }),
            reth: has(Headers::RETH).then_some(Reth {
                va: w1,
                rkey: half1,
                dma_len: w2 as u32,
            }),
            atomic: has(Headers::ATOMIC).then_some(AtomicEth {
                va: w1,
                rkey: half1,
                swap_or_add: w2,
                compare: w3,
            }),
            aeth: has(Headers::AETH).then_some(Aeth {
                syndrome: Syndrome::from_byte(w0 as u8),
                msn: half1 & 0x00ff_ffff,
            }),
            atomic_ack: has(Headers::ATOMIC_ACK).then_some(AtomicAckEth { original: w1 }),
            imm: has(Headers::IMM).then_some(ImmDt(w3 as u32)),
            ieth: has(Headers::IETH).then_some(Ieth(w3 as u32)),
        },
    }
}

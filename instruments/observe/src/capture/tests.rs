use super::comments::Comments;
use super::frame::Frame;
use super::tap::{Tap, Tapped};
use crate::DeviceNames;
use roce_capture::Capture;
use roce_port::memory::{MemoryIp, SRC_PORT};
use roce_port::{Effects, Layer, Layered, Loss, MemoryPort, Port, RxSink};
use roce_stack::{
    Counters, Flow, Instant, IpCovered, Nic, NicConfig, ReserveError, RoceVersion, RxMeta,
    Sequenced, Transmit, TxMeta, TxSlot,
};
use roce_wire::cm::gid_of;
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{Bth, ExtHeaders, IcrcVerdict, NetworkHeader, Opcode, PacketRepr, Psn, Qpn};
use std::net::IpAddr;
use std::time::Duration;

const PORT: u16 = SRC_PORT;

fn v4(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn v6(last: u16) -> IpAddr {
    [0xfe80, 0, 0, 0, 0, 0, 0, last].into()
}

fn octets_v4(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("{address} is IPv6"),
    }
}

/// A packet whose ICRC is valid for the addresses and, over IPv4, for `id` and `flags_fragment`.
fn transport(src: IpAddr, dst: IpAddr, id: u16, flags_fragment: u16) -> Vec<u8> {
    let repr = PacketRepr {
        bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x12).unwrap(), Psn::new(7)),
        ext: ExtHeaders::NONE,
    };
    let mut bytes = vec![0; repr.buffer_len(100)];
    repr.emit_headers(&mut bytes, 100);
    let ip = match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpHeader::V6 {
            src: src.octets(),
            dst: dst.octets(),
        },
        _ => IpHeader::V4 {
            src: octets_v4(src),
            dst: octets_v4(dst),
            id,
            flags_fragment,
        },
    };
    icrc::seal(&ip, PORT, roce_wire::UDP_PORT, &mut bytes);
    bytes
}

fn received(src: IpAddr, dst: IpAddr, ip: IpCovered) -> RxMeta {
    RxMeta {
        src,
        dst,
        src_port: PORT,
        traffic_class: 0x6a,
        ip,
    }
}

fn parse(bytes: &[u8]) -> roce_wire::Frame<'_> {
    let ethertype = if bytes[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    roce_wire::Frame::parse_l3_on(ethertype, bytes, roce_wire::UDP_PORT).expect("an IP packet")
}

#[test]
fn hidden_ipv4_fields_are_recovered_from_the_icrc() {
    let (src, dst) = (v4(1), v4(2));
    for (id, flags) in [(0, 0x4000), (1, 0x4000), (0xbeef, 0x4000), (77, 0)] {
        let packet = transport(src, dst, id, flags);
        let mut frame = Frame::default();
        let bytes = frame.received(&received(src, dst, IpCovered::V4Hidden), &packet);
        let parsed = parse(bytes);
        assert_eq!(parsed.icrc_verdict(), IcrcVerdict::Valid, "{id:#x}");
        assert_eq!(parsed.transport, packet);
        assert_eq!(parsed.udp.map(|udp| udp.src_port), Some(PORT));
        let NetworkHeader::V4 {
            src: from,
            tos,
            id: found,
            flags_fragment,
            ..
        } = parsed.network
        else {
            panic!("{:?}", parsed.network)
        };
        assert_eq!((from, tos), (octets_v4(src), 0x6a));
        assert_eq!((found, flags_fragment), (id, flags));
    }
}

#[test]
fn known_ipv4_fields_are_kept_even_if_the_icrc_is_wrong() {
    let (src, dst) = (v4(1), v4(2));
    let ip = IpCovered::V4 {
        id: 5,
        flags_fragment: 0x4000,
    };
    for (id, verdict_is_valid) in [(5, true), (6, false)] {
        let packet = transport(src, dst, id, 0x4000);
        let mut frame = Frame::default();
        let parsed_frame = frame.received(&received(src, dst, ip), &packet).to_vec();
        let verdict = parse(&parsed_frame).icrc_verdict();
        assert_eq!(verdict == IcrcVerdict::Valid, verdict_is_valid);
    }
}

#[test]
fn ipv6_packets_have_a_valid_udp_checksum() {
    let (src, dst) = (v6(1), v6(2));
    let packet = transport(src, dst, 0, 0);
    let mut frame = Frame::default();
    let to = TxMeta {
        src,
        dst,
        traffic_class: 2,
        hop_limit: 9,
        version: roce_stack::RoceVersion::V2,
    };
    let bytes = frame.sent(&to, PORT, IpCovered::V6, &packet);
    let parsed = parse(bytes);
    assert_eq!(parsed.icrc_verdict(), IcrcVerdict::Valid);
    assert!(matches!(
        parsed.network,
        NetworkHeader::V6 {
            hop_limit: 9,
            traffic_class: 2,
            ..
        }
    ));
    let sum = parsed.repr().udp_checksum(&packet);
    assert_eq!(parsed.udp.map(|udp| udp.checksum), sum);
    assert_ne!(sum, Some(0));
}

/// A captured RoCE v1 packet keeps its EtherType, its GRH's traffic class and hop limit, and its
/// ICRC.
#[test]
fn roce_v1_packets_keep_their_grh_and_have_no_ethernet_addresses() {
    for (src, dst) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let [sgid, dgid] = [src, dst].map(|address| gid_of(address).octets());
        let mut packet = transport(src, dst, 0, 0);
        icrc::seal(&IpHeader::Grh { sgid, dgid }, 0, 0, &mut packet);
        let to = TxMeta {
            src,
            dst,
            traffic_class: 0x6a,
            hop_limit: 9,
            version: RoceVersion::V1,
        };
        let mut frame = Frame::default();
        let sent = frame.sent(&to, 0, IpCovered::Grh, &packet).to_vec();
        let got = frame.received(&received(src, dst, IpCovered::Grh), &packet);
        for (bytes, direction, hop_limit) in [(&sent[..], 4, 9), (got, 0, 64)] {
            let (cooked, rest) = bytes.split_at(16);
            assert_eq!(cooked[..4], [0, direction, 0, 1]);
            assert_eq!(cooked[4..14], [0; 10]);
            assert_eq!(cooked[14..], [0x89, 0x15]);
            let parsed = roce_wire::Frame::parse_l3(0x8915, rest).expect("a frame");
            assert_eq!(parsed.icrc_verdict(), IcrcVerdict::Valid);
            let NetworkHeader::Grh(grh) = parsed.network else {
                panic!("{:?}", parsed.network)
            };
            assert_eq!((grh.sgid, grh.dgid), (sgid, dgid));
            assert_eq!((grh.traffic_class, grh.hop_limit), (0x6a, hop_limit));
        }
    }
}

#[test]
fn packets_of_any_length_are_captured() {
    let mut frame = Frame::default();
    for len in [0, 1, 65_507, 70_000] {
        for (src, dst) in [(v4(1), v4(2)), (v6(1), v6(2))] {
            frame.received(&received(src, dst, IpCovered::V4Hidden), &vec![0; len]);
        }
    }
    // Addresses of different families produce no packet.
    let odd = received(v4(1), v6(2), IpCovered::V6);
    assert!(frame.received(&odd, &[0; 20]).is_empty());
}

/// A capture of the loopback device, in a file in `dir`.
fn tap(dir: &std::path::Path) -> (Tap, Capture) {
    let capture = Capture::create(dir.join("a.pcapng")).expect("made");
    let device = DeviceNames {
        device: "roce_lo".to_owned(),
        interface: "lo".to_owned(),
    };
    (Tap::new(Some(&capture), None, &device), capture)
}

/// A NIC that gets packets.
struct Receiver(Nic);

impl RxSink for Receiver {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self.0.receive(Instant::ZERO, meta, transport);
    }

    fn counters(&self) -> Option<&Counters> {
        Some(self.0.counters())
    }
}

fn nic() -> Nic {
    Nic::new(&NicConfig {
        seed: [1; 32],
        max_packet_bytes: 4200,
        window_bytes: 1 << 20,
    })
}

#[test]
fn comments_say_what_happened_to_a_packet() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut tap, capture) = tap(dir.path());
    let mut receiver = Receiver(nic());
    let mut tapped = Tapped {
        tap: &mut tap,
        sink: &mut receiver,
    };
    let (src, dst) = (v4(1), v4(2));
    let meta = received(src, dst, IpCovered::V4Hidden);
    let good = transport(src, dst, 0, 0x4000);
    let mut bad = good.clone();
    bad[30] ^= 1;
    let late = Effects {
        held: Duration::from_nanos(81_421),
        flipped_bit: Some(85),
        is_duplicate: true,
    };
    for (packet, effects, expected) in [
        (
            &good,
            Effects::default(),
            &["dropped: unknown qp (drop_unknown_qp)"][..],
        ),
        (
            &bad,
            Effects::default(),
            &["dropped: bad icrc (drop_bad_icrc)"],
        ),
        (
            &good,
            late,
            &[
                "fault: a duplicate (fault_duplicated)",
                "fault: held back for 81.421 us",
                "fault: bit 5 of byte 10 flipped (fault_corrupted)",
                "dropped: unknown qp (drop_unknown_qp)",
            ],
        ),
    ] {
        tapped.faulty(&meta, packet, &effects);
        assert_eq!(tapped.tap.comments.0, expected);
    }
    for (why, expected) in [
        (Loss::Random, "fault: lost (fault_lost)"),
        (
            Loss::Overflow,
            "fault: lost: too many packets were held back (fault_overflowed)",
        ),
    ] {
        tapped.lost(&meta, &good, why);
        assert_eq!(tapped.tap.comments.0, [expected]);
    }
    // The lost packets did not reach the NIC.
    assert_eq!(receiver.0.counters().total_drops(), 3);
    capture.flush();
    assert_eq!(capture.packets(), 5);
}

/// One packet may cause the drop of many earlier packets. One comment gives their number, because
/// tshark and `roce decode` show only some of a packet's comments.
#[test]
fn repeated_drops_share_one_comment() {
    let mut nic = nic();
    let (src, dst) = (v4(1), v4(2));
    let meta = received(src, dst, IpCovered::V4Hidden);
    let packet = transport(src, dst, 0, 0x4000);
    let before = nic.counters().clone();
    for _ in 0..144 {
        nic.receive(Instant::ZERO, &meta, &packet);
    }
    let mut comments = Comments::default();
    comments.received(&before, nic.counters());
    assert_eq!(
        comments.0,
        ["dropped: unknown qp (drop_unknown_qp), 144 times"]
    );
}

#[test]
fn a_tapped_port_sends_and_captures_the_same_packets() {
    let dir = tempfile::tempdir().expect("a folder");
    let (layer, capture) = tap(dir.path());
    let port = MemoryPort::new(MemoryIp::V4Numbered, 4200).poisoned();
    let to = TxMeta {
        src: v4(1),
        dst: v4(2),
        traffic_class: 0,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    };
    let mut tap = Layered { layer, port };
    // A commit without a reservation sends nothing. A reservation without a commit sends nothing
    // either.
    tap.commit();
    assert!(
        tap.reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, 9, 1)
            .is_ok()
    );
    let mut expected = Vec::new();
    for _ in 0..3 {
        let len = transport(to.src, to.dst, 0, 0x4000).len();
        let slot = tap
            .reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, len, 1)
            .expect("a slot");
        assert_eq!(slot.src_port, PORT);
        let IpCovered::V4 { id, .. } = slot.ip else {
            panic!("{:?}", slot.ip);
        };
        let packet = transport(to.src, to.dst, id, 0x4000);
        slot.bytes.copy_from_slice(&packet);
        tap.commit();
        expected.push((id, packet));
    }
    tap.port.max_queued = 0;
    assert!(matches!(
        tap.reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, 9, 1),
        Err(ReserveError::Full)
    ));
    tap.flush().expect("flushed");
    let sent = tap.port.out.iter().map(|frame| &frame.bytes);
    assert!(sent.eq(expected.iter().map(|(_, packet)| packet)));
    assert_eq!(tap.port.out.len(), 3);
    let (id, packet) = &expected[2];
    assert_eq!(capture.packets(), 3);
    let mut frame = Frame::default();
    let last = frame.sent(
        &to,
        PORT,
        IpCovered::V4 {
            id: *id,
            flags_fragment: 0x4000,
        },
        packet,
    );
    assert_eq!(parse(last).icrc_verdict(), IcrcVerdict::Valid);
    let file = std::fs::read(capture.path()).expect("the file");
    assert!(file.windows(last.len()).any(|window| window == last));
}

/// Changes the source port with each reservation.
struct Fickle(u16);

impl Layer for Fickle {
    fn reserve<'a>(
        &'a mut self,
        port: &'a mut impl Port,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'a>, ReserveError> {
        self.0 += 1;
        let slot = port.reserve_run(to, flow, sequenced, len, count)?;
        Ok(TxSlot {
            src_port: slot.src_port + self.0,
            ..slot
        })
    }
}

/// A second reservation may meet another way to the destination, with other headers: UC lost such packets.
#[test]
fn each_captured_packet_is_reserved_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (layer, capture) = tap(dir.path());
    let port = Layered {
        layer: Fickle(0),
        port: MemoryPort::new(MemoryIp::V4, 4200),
    };
    let mut tap = Layered { layer, port };
    let to = TxMeta {
        src: v4(1),
        dst: v4(2),
        traffic_class: 0,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    };
    let packet = transport(to.src, to.dst, 0, 0x4000);
    for number in 1..=3 {
        let slot = tap
            .reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, packet.len(), 1)
            .expect("a slot");
        assert_eq!(slot.src_port, PORT + number);
        slot.bytes.copy_from_slice(&packet);
        tap.commit();
    }
    tap.flush().expect("flushed");
    assert_eq!(tap.port.port.out.len(), 3);
    assert_eq!(capture.packets(), 3);
}

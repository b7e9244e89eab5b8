use roce_stack::RoceVersion;

use super::super::event::PathKey;
use super::super::facts::Priority;
use super::super::template::{PacketFields, Template};
use super::*;

const OWN: Mac = [2, 0, 0, 0, 0, 1];
const PEER: Mac = [2, 0, 0, 0, 0, 2];
const TAG: VlanTag = VlanTag {
    tpid: 0x8100,
    tci: 5,
};

fn addresses() -> [IpAddr; 2] {
    ["10.90.0.1", "fe80::1"].map(|text| text.parse().unwrap())
}

fn groups() -> [IpAddr; 2] {
    ["239.1.2.3", "ff0e::5:1"].map(|text| text.parse().unwrap())
}

/// Parses as a station with [`addresses`] and [`groups`].
fn parse(frame: &[u8], vlan: Option<VlanTag>) -> Result<Received<'_>, RxDrop> {
    let (addresses, groups) = (addresses(), groups());
    let station = Station {
        mac: OWN,
        vlan,
        addresses: &addresses,
        groups: &groups,
        roce_v1: false,
    };
    station.parse(frame)
}

/// Parses as a station that also accepts RoCE v1.
fn parse_v1(frame: &[u8]) -> Result<Received<'_>, RxDrop> {
    let (addresses, groups) = (addresses(), groups());
    let station = Station {
        mac: OWN,
        vlan: None,
        addresses: &addresses,
        groups: &groups,
        roce_v1: true,
    };
    station.parse(frame)
}

const TRANSPORT: &[u8] = b"a packet from BTH to ICRC";

fn frame_between(src: &str, dst: &str, to: Mac, tag: Option<VlanTag>) -> Vec<u8> {
    let path = PathKey {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        version: RoceVersion::V2,
    };
    frame_on(path, to, tag)
}

/// RoCE v1 frames between addresses of each family.
fn v1() -> [(Vec<u8>, &'static str); 2] {
    [("10.90.0.2", "10.90.0.1"), ("fe80::2", "fe80::1")].map(|(src, dst)| {
        let path = PathKey {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            version: RoceVersion::V1,
        };
        (frame_on(path, OWN, None), src)
    })
}

fn frame_on(path: PathKey, to: Mac, tag: Option<VlanTag>) -> Vec<u8> {
    let tag = tag.map(|tag| (tag, Priority::Fixed(3)));
    let template = Template::new(path, PEER, to, tag, 1500).unwrap();
    let mut frame = vec![0; template.header_len()];
    let fields = PacketFields {
        transport_len: TRANSPORT.len(),
        traffic_class: 0x6a,
        hop_limit: 9,
        src_port: 49_200,
        id: 0x1234,
    };
    template.write(&mut frame, &fields);
    frame.extend_from_slice(TRANSPORT);
    frame
}

fn v4() -> Vec<u8> {
    frame_between("10.90.0.2", "10.90.0.1", OWN, None)
}

fn v6() -> Vec<u8> {
    frame_between("fe80::2", "fe80::1", OWN, None)
}

/// Corrects the checksum in the IPv4 header of an untagged frame.
fn fix_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

fn reason_after(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> RxDrop {
    change(&mut frame);
    parse(&frame, None).unwrap_err()
}

// shows: CA17-21-length
// trap: link-padding
#[test]
fn headers_become_metadata_and_padding_is_removed() {
    for (frame, ip) in [
        (
            v4(),
            IpCovered::V4 {
                id: 0x1234,
                flags_fragment: 0x4000,
            },
        ),
        (v6(), IpCovered::V6),
    ] {
        for padding in [0, 1, 18] {
            let mut frame = frame.clone();
            frame.extend(std::iter::repeat_n(0x5a, padding));
            let received = parse(&frame, None).unwrap();
            assert_eq!(received.transport, TRANSPORT);
            assert_eq!(received.meta.ip, ip);
            assert_eq!(received.meta.src_port, 49_200);
            assert_eq!(received.meta.traffic_class, 0x6a);
            assert!(addresses().contains(&received.meta.dst));
            let peers: [IpAddr; 2] = ["10.90.0.2", "fe80::2"].map(|text| text.parse().unwrap());
            assert!(peers.contains(&received.meta.src));
        }
    }
}

/// The GRH provides the sender and the length. RoCE v1 frames are accepted only if enabled.
// shows: A16-grh, A16-stack
#[test]
fn a_grh_becomes_metadata_if_roce_v1_is_enabled() {
    for (mut frame, src) in v1() {
        assert_eq!(parse(&frame, None), Err(RxDrop::RoceV1));
        frame.extend([0x5a; 7]);
        let received = parse_v1(&frame).unwrap();
        assert_eq!(received.transport, TRANSPORT);
        assert_eq!(received.meta.src, src.parse::<IpAddr>().unwrap());
        assert!(addresses().contains(&received.meta.dst));
        let RxMeta {
            src_port,
            traffic_class,
            ip,
            ..
        } = received.meta;
        assert_eq!((src_port, traffic_class, ip), (0, 0x6a, IpCovered::Grh));
    }
    // Version, next header, length; another station's address, and GID.
    let cases: [(RxDrop, Change); 5] = [
        (RxDrop::Grh, |frame| frame[14] = 0x46),
        (RxDrop::Grh, |frame| frame[20] = 17),
        (RxDrop::Grh, |frame| frame[18] = 1),
        (RxDrop::OtherMac, |frame| frame[5] = 9),
        (RxDrop::OtherAddress, |frame| frame[53] = 9),
    ];
    for (number, (reason, change)) in cases.into_iter().enumerate() {
        for (mut frame, _) in v1() {
            change(&mut frame);
            assert_eq!(parse_v1(&frame), Err(reason), "case {number}");
        }
    }
}

/// A modification of a frame.
type Change = fn(&mut Vec<u8>);

// shows: CA17-24-silent-drop, CA17-27-version
#[test]
fn every_invalid_field_has_its_drop_reason() {
    let cases: [(RxDrop, Change); 13] = [
        (RxDrop::EtherType, |frame| frame[13] = 0x06),
        (RxDrop::Grh, |frame| {
            frame[12..14].copy_from_slice(&[0x89, 0x15])
        }),
        (RxDrop::OtherMac, |frame| frame[5] = 9),
        (RxDrop::Ipv4Header, |frame| frame[14] = 0x65),
        (RxDrop::Ipv4Header, |frame| frame[16..18].fill(0xff)),
        (RxDrop::Ipv4Checksum, |frame| frame[24] ^= 0x01),
        (RxDrop::Ipv4Checksum, |frame| frame[22] = 8),
        (RxDrop::Fragment, |frame| frame[20] = 0x20),
        (RxDrop::Fragment, |frame| frame[21] = 1),
        (RxDrop::NotUdp, |frame| frame[23] = 6),
        (RxDrop::UdpPort, |frame| frame[37] ^= 1),
        (RxDrop::UdpLength, |frame| frame[38..40].fill(0)),
        (RxDrop::UdpLength, |frame| {
            frame[38..40].copy_from_slice(&[0, 200])
        }),
    ];
    for (number, (reason, change)) in cases.into_iter().enumerate() {
        assert_eq!(reason_after(v4(), change), reason, "case {number}");
    }
    let cases: [(RxDrop, Change); 5] = [
        (RxDrop::Ipv6Header, |frame| frame[14] = 0x40),
        (RxDrop::Ipv6Header, |frame| frame[18..20].fill(0xff)),
        // A hop-by-hop header, and a fragment.
        (RxDrop::NotUdp, |frame| frame[20] = 0),
        (RxDrop::NotUdp, |frame| frame[20] = 44),
        (RxDrop::UdpPort, |frame| frame[57] ^= 1),
    ];
    for (number, (reason, change)) in cases.into_iter().enumerate() {
        assert_eq!(reason_after(v6(), change), reason, "case {number}");
    }
}

// shows: CA17-3-header-length
#[test]
fn ipv4_options_are_refused() {
    let reason = reason_after(v4(), |frame| {
        frame.splice(34..34, [1; 4]);
        frame[14] = 0x46;
        frame[17] += 4;
    });
    assert_eq!(reason, RxDrop::Ipv4Options);
}

#[test]
fn only_frames_to_this_station_are_accepted() {
    let from = |src, dst, mac| frame_between(src, dst, mac, None);
    let drop = |frame: Vec<u8>| parse(&frame, None).map(|_| ()).unwrap_err();
    assert_eq!(
        drop(from("10.90.0.2", "10.90.0.3", OWN)),
        RxDrop::OtherAddress
    );
    assert_eq!(drop(from("fe80::2", "fe80::3", OWN)), RxDrop::OtherAddress);
    assert_eq!(
        drop(from("10.90.0.2", "10.90.0.1", [0xff; 6])),
        RxDrop::OtherMac
    );
    assert!(parse_fast(&from("10.90.0.2", "10.90.0.1", OWN)).is_some());
    for src in ["0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1"] {
        let frame = from(src, "10.90.0.1", OWN);
        assert_eq!(parse_fast(&frame), None, "{src}");
        assert_eq!(drop(frame), RxDrop::BadSource, "{src}");
    }
    for src in ["::", "::1", "ff02::1"] {
        assert_eq!(drop(from(src, "fe80::1", OWN)), RxDrop::BadSource, "{src}");
    }
}

#[test]
fn frames_to_joined_groups_need_the_group_mac() {
    let group = |dst, mac| frame_between("10.90.0.2", dst, mac, None);
    let mac = [1, 0, 0x5e, 1, 2, 3];
    assert!(parse(&group("239.1.2.3", mac), None).is_ok());
    assert_eq!(parse(&group("239.1.2.3", OWN), None), Err(RxDrop::OtherMac));
    assert_eq!(
        parse(&group("239.129.2.3", mac), None),
        Err(RxDrop::OtherAddress)
    );
    let mac = [0x33, 0x33, 0, 5, 0, 1];
    assert!(parse(&frame_between("fe80::2", "ff0e::5:1", mac, None), None).is_ok());
}

// shows: A17.2.3-vlan
#[test]
fn frames_of_another_vlan_are_dropped() {
    let tagged = |tci| {
        let tpid = 0x8100;
        frame_between("10.90.0.2", "10.90.0.1", OWN, Some(VlanTag { tpid, tci }))
    };
    let verdict = |frame: &[u8], vlan| parse(frame, vlan).map(|received| received.transport.len());
    let taken = Ok(TRANSPORT.len());
    assert_eq!(verdict(&tagged(5), Some(TAG)), taken);
    assert_eq!(verdict(&tagged(6), Some(TAG)), Err(RxDrop::OtherVlan));
    assert_eq!(verdict(&v4(), Some(TAG)), Err(RxDrop::OtherVlan));
    assert_eq!(verdict(&tagged(5), None), Err(RxDrop::OtherVlan));
    // A tag of VLAN 0 carries only a priority. If the station's tag has VLAN 0, untagged frames are
    // accepted, too.
    assert_eq!(verdict(&tagged(0), None), taken);
    let priority = Some(VlanTag { tci: 0, ..TAG });
    assert_eq!(verdict(&tagged(3 << 13), priority), taken);
    assert_eq!(verdict(&v4(), priority), taken);
    assert_eq!(verdict(&tagged(5), priority), Err(RxDrop::OtherVlan));
    let mut twice = tagged(5);
    twice.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(verdict(&twice, Some(TAG)), Err(RxDrop::OtherVlan));
    let mut outer = tagged(5);
    outer[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert_eq!(verdict(&outer, Some(TAG)), Err(RxDrop::OtherVlan));
}

/// A frame truncated at any point is dropped, and nothing panics.
#[test]
fn every_truncation_is_dropped() {
    let tagged = frame_between("10.90.0.2", "10.90.0.1", OWN, Some(TAG));
    for (frame, vlan) in [(v4(), None), (v6(), None), (tagged, Some(TAG))] {
        for len in 0..frame.len() {
            let verdict = parse(&frame[..len], vlan);
            assert!(verdict.is_err(), "{len} of {} bytes", frame.len());
            assert_eq!(
                verdict == Err(RxDrop::Truncated),
                len < 14 + 4 * usize::from(vlan.is_some())
            );
        }
    }
}

/// Pseudo-random numbers that are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Hostile frames: valid ones with bytes changed, and noise. Any accepted transport packet lies
/// within the frame and is for this station; nothing panics.
#[test]
fn hostile_frames_cause_no_panic_and_no_wrong_packet() {
    let mut numbers = Numbers(4791);
    let good = [v4(), v6()];
    let (mut taken, mut dropped) = (0, 0);
    for round in 0..40_000 {
        let mut frame = good[round % 2].clone();
        if numbers.below(8) == 0 {
            let len = numbers.below(120);
            frame = (0..len).map(|_| numbers.next() as u8).collect();
        }
        for _ in 0..numbers.below(4) {
            if let Some(at) = frame.len().checked_sub(1) {
                // Change the headers more often than the rest.
                let at = numbers.below(at + 1).min(numbers.below(at + 1));
                frame[at] = numbers.next() as u8;
            }
        }
        if numbers.below(2) == 0 && frame.len() > 34 && frame[12..14] == [8, 0] {
            fix_checksum(&mut frame);
        }
        frame.truncate(numbers.below(frame.len() * 8 + 1));
        let vlan = (numbers.below(8) == 0).then_some(TAG);
        match parse(&frame, vlan) {
            Ok(received) => {
                let bytes = frame.as_ptr_range();
                let part = received.transport.as_ptr_range();
                assert!(bytes.start <= part.start && part.end <= bytes.end);
                assert!(addresses().contains(&received.meta.dst));
                taken += 1;
            }
            Err(_) => dropped += 1,
        }
    }
    // Frames were both accepted and dropped in large numbers.
    assert!(
        taken > 4000 && dropped > 4000,
        "{taken} taken, {dropped} dropped"
    );
}

/// As [`parse`], but with the fast path.
fn parse_fast(frame: &[u8]) -> Option<Received<'_>> {
    parse_usual(&OWN, &addresses(), frame)
}

/// The fast path accepts the usual frame, and returns the same result as the slow path for every
/// frame that it accepts.
#[test]
fn the_fast_path_agrees_with_the_slow_path() {
    let mut numbers = Numbers(8915);
    assert!(parse_fast(&v4()).is_some());
    let (mut short, mut long) = (0, 0);
    for _ in 0..60_000 {
        let mut frame = v4();
        frame.extend(std::iter::repeat_n(0x5a, numbers.below(3)));
        for _ in 0..numbers.below(4) {
            // Change a bit or a byte of the headers.
            let at = numbers.below(42);
            frame[at] = match numbers.below(2) {
                0 => frame[at] ^ 1 << numbers.below(8),
                _ => numbers.next() as u8,
            };
        }
        if numbers.below(4) > 0 {
            fix_checksum(&mut frame);
        }
        let cut = numbers.below(frame.len() * 8 + 1);
        frame.truncate(cut);
        match parse_fast(&frame) {
            Some(received) => {
                assert_eq!(parse(&frame, None), Ok(received), "{frame:02x?}");
                short += 1;
            }
            None => long += usize::from(parse(&frame, None).is_ok()),
        }
    }
    assert!(short > 10_000 && long > 10, "{short} short, {long} long");
}

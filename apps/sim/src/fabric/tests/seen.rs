//! Every packet is seen on watched cables, and every drop has a reason.

use super::*;
use roce_faults::{Chance, FaultSpec};
use roce_wire::{Frame, IcrcVerdict, NetworkHeader};

const HOSTS: [HostId; 2] = [HostId(0), HostId(1)];

/// Watches the cables and runs. Returns each packet's cable, sender and fate, and checks that it
/// is a frame.
fn watch_and_run(fabric: &mut Fabric, cables: &[CableId]) -> Vec<(usize, NodeId, Fate)> {
    for cable in cables {
        fabric.watch(*cable, usize::MAX >> 1);
    }
    run(fabric);
    let mut seen = SeenPackets::default();
    fabric.take_seen(&mut seen);
    assert_eq!(seen.missed(), 0);
    let mut last = Instant::ZERO;
    for packet in seen.iter() {
        assert!(packet.time >= last);
        last = packet.time;
        assert_eq!(packet.frame.len(), packet.frame_len);
        let frame = Frame::parse_ethernet(packet.frame).expect("a frame");
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid);
    }
    let all = seen.iter();
    all.map(|packet| (packet.cable.0, packet.from, packet.fate))
        .collect()
}

fn count(all: &[(usize, NodeId, Fate)], fate: Fate) -> usize {
    all.iter().filter(|(_, _, other)| *other == fate).count()
}

#[test]
fn a_packet_is_seen_at_each_hop_and_at_its_end() {
    let (mut fabric, ends, cables) = incast(SwitchSpec::default(), 1 << 20, 1);
    send_all(&mut fabric, &ends[..2]);
    let unwatched = {
        let (mut fabric, ends, _) = incast(SwitchSpec::default(), 1 << 20, 1);
        send_all(&mut fabric, &ends[..2]);
        run(&mut fabric);
        fabric.fingerprint()
    };
    let all = watch_and_run(&mut fabric, &cables);
    assert_eq!(fabric.fingerprint(), unwatched);
    let counters = fabric.counters();
    assert_eq!(count(&all, Fate::Arrived) as u64, counters.delivered);
    let data = |(cable, from, fate): &(usize, NodeId, Fate)| {
        *cable == 2 && matches!(from, NodeId::Switch(_)) && *fate == Fate::Sent
    };
    let arrived = |(cable, _, fate): &(usize, NodeId, Fate)| *cable == 2 && *fate == Fate::Arrived;
    let [sent, arrived] = [
        all.iter().filter(|seen| data(seen)).count(),
        all.iter().filter(|seen| arrived(seen)).count(),
    ];
    assert_eq!(sent, arrived);
    assert!(sent >= 4 * LEN / 4096, "{sent}");
    assert_eq!(fabric.meter(cables[2], HOSTS[0]).map(|_| ()), None);
}

#[test]
fn drops_and_marks_name_the_port_and_its_queue() {
    let (mut fabric, ends, cables) = incast(marking_switch(), 32 << 10, 1);
    fabric.watch(cables[2], 60);
    send_all(&mut fabric, &ends);
    run(&mut fabric);
    let mut seen = SeenPackets::default();
    fabric.take_seen(&mut seen);
    let dropped = Fate::Dropped(DropReason::QueueFull);
    let mut counts = [0, 0];
    for packet in seen.iter() {
        let frame = packet.frame;
        assert_eq!(frame.len(), packet.frame_len.min(60));
        let tos = frame[15];
        if packet.fate == dropped {
            counts[0] += 1;
            assert_eq!(packet.from, SwitchId(0).into());
            let fits = packet.queued_bytes + packet.frame_len - 42;
            assert!(fits > 32 << 10, "{packet:?}");
        } else if packet.fate == Fate::Marked {
            counts[1] += 1;
            assert!(packet.queued_bytes > MARKING.kmin_bytes, "{packet:?}");
            assert_eq!(tos & 3, 3);
        } else if packet.fate == Fate::Sent {
            assert_ne!(tos & 3, 3);
        }
    }
    let counters = fabric.counters();
    assert_eq!(counts, [counters.dropped, counters.marked]);
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    let meter = fabric.meter(cables[2], SwitchId(0)).expect("its port");
    assert_eq!(meter.drops.of(DropReason::QueueFull), counts[0]);
    assert_eq!(meter.drops.total(), counts[0]);
    // The caller has taken them.
    fabric.take_seen(&mut seen);
    assert!(seen.is_empty());
}

/// Breaks the way from a host through two switches to another host. Returns the drops, each with
/// the cable and the sender.
fn reasons(
    switch: SwitchSpec,
    ring_packets: usize,
    middle: LinkSpec,
    change: impl Fn(&mut Fabric, CableId),
) -> Vec<(DropReason, usize, NodeId)> {
    let mut builder = FabricBuilder::new();
    let switches = [switch, SwitchSpec::default()].map(|spec| builder.switch(spec));
    let spec = HostSpec {
        ring_packets,
        ..HostSpec::default()
    };
    let hosts = [builder.host(spec), builder.host(spec)];
    let cables = [
        builder.cable(hosts[0], switches[0], LinkSpec::default()),
        builder.cable(switches[0], switches[1], middle),
        builder.cable(switches[1], hosts[1], LinkSpec::default()),
    ];
    let mut fabric = builder.build(3);
    let ends = hosts.map(|host| End::new(&mut fabric, host));
    let pair = [(ends[0].host, ends[0].qpn), (ends[1].host, ends[1].qpn)];
    connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
    change(&mut fabric, cables[0]);
    for cable in cables {
        fabric.watch(cable, 60);
    }
    ends[0].write_to(&mut fabric, &ends[1], 1);
    let end = fabric.now() + Duration::from_millis(1);
    while fabric.step(end).is_some() {}
    let mut seen = SeenPackets::default();
    fabric.take_seen(&mut seen);
    let drops = seen.iter().filter_map(|packet| match packet.fate {
        Fate::Dropped(reason) => Some((reason, packet.cable.0, packet.from)),
        _ => None,
    });
    let mut drops: Vec<_> = drops.collect();
    drops.sort();
    drops.dedup();
    // The meters agree.
    for (reason, cable, from) in &drops {
        let meter = fabric.meter(CableId(*cable), *from).expect("a port");
        assert!(meter.drops.of(*reason) > 0);
    }
    drops
}

#[test]
fn every_drop_has_a_reason() {
    let plain = SwitchSpec::default();
    let link = LinkSpec::default();
    let [host, near, far] = [HOSTS[0].into(), SwitchId(0).into(), SwitchId(1).into()];
    let nothing = |_: &mut Fabric, _: CableId| {};
    assert_eq!(reasons(plain, 4096, link, nothing), []);
    let short = LinkSpec {
        max_packet_bytes: 600,
        ..link
    };
    let too_long = [(DropReason::TooLong, 1, near)];
    assert_eq!(reasons(plain, 4096, short, nothing), too_long);
    let memory = SwitchSpec {
        buffer: Some(BufferSpec {
            bytes: 500,
            headroom_bytes: 0,
            hysteresis_bytes: 0,
        }),
        ..plain
    };
    let memory_full = [(DropReason::MemoryFull, 1, near)];
    assert_eq!(reasons(memory, 4096, link, nothing), memory_full);
    let down = |fabric: &mut Fabric, cable: CableId| fabric.set_down(cable, true);
    let link_down = [(DropReason::LinkDown, 0, host)];
    assert_eq!(reasons(plain, 4096, link, down), link_down);
    let lossy = |fabric: &mut Fabric, cable: CableId| {
        let all = FaultSpec {
            loss: Chance::ALWAYS,
            ..FaultSpec::default()
        };
        fabric.set_faults(cable, all);
    };
    let lost = [(DropReason::Lost, 0, host)];
    assert_eq!(reasons(plain, 4096, link, lossy), lost);
    let ring_full = [(DropReason::RingFull, 2, far)];
    assert_eq!(reasons(plain, 0, link, nothing), ring_full);
}

#[test]
fn a_switch_without_a_route_drops() {
    let mut builder = FabricBuilder::new();
    let [near, far] = [SwitchSpec::default(); 2].map(|spec| builder.switch(spec));
    let hosts = [HostSpec::default(); 2].map(|spec| builder.host(spec));
    let cable = builder.cable(hosts[0], near, LinkSpec::default());
    builder.cable(hosts[1], far, LinkSpec::default());
    let mut fabric = builder.build(1);
    let ends = hosts.map(|host| End::new(&mut fabric, host));
    let pair = [(ends[0].host, ends[0].qpn), (ends[1].host, ends[1].qpn)];
    connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
    ends[0].write_to(&mut fabric, &ends[1], 1);
    let end = fabric.now() + Duration::from_millis(1);
    while fabric.step(end).is_some() {}
    let meter = fabric.meter(cable, hosts[0]).expect("its port");
    let drops: Vec<_> = meter.drops.reasons().collect();
    assert_eq!(drops, [(DropReason::NoRoute, fabric.counters().dropped)]);
}

/// A packet's addresses are in the frame that the fabric makes up.
#[test]
fn frames_have_the_addresses_of_the_packets() {
    for ip in [Ip::V4, Ip::V4Hidden, Ip::V6] {
        let mut builder = FabricBuilder::new();
        let spec = HostSpec {
            ip,
            ..HostSpec::default()
        };
        let hosts = [builder.host(spec), builder.host(spec)];
        let cable = builder.cable(hosts[0], hosts[1], LinkSpec::default());
        let mut fabric = builder.build(1);
        let ends = hosts.map(|host| End::new(&mut fabric, host));
        let pair = [(ends[0].host, ends[0].qpn), (ends[1].host, ends[1].qpn)];
        connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
        fabric.watch(cable, 100);
        ends[0].write_to(&mut fabric, &ends[1], 1);
        let mut seen = SeenPackets::default();
        fabric.take_seen(&mut seen);
        let packet = seen.iter().next().expect("the first packet");
        let mut whole = packet.frame.to_vec();
        whole.resize(packet.frame_len, 0);
        let frame = Frame::parse_ethernet(&whole).expect("a frame");
        let (src, dst): (IpAddr, IpAddr) = match frame.network {
            NetworkHeader::V4 { src, dst, .. } => (src.into(), dst.into()),
            NetworkHeader::V6 { src, dst, .. } => (src.into(), dst.into()),
            NetworkHeader::Grh(_) => panic!("RoCE v1"),
        };
        assert_eq!([src, dst], hosts.map(|host| fabric.address(host)));
    }
}

/// The sum of an IPv4 header's words, which is 0xffff if the checksum is right.
fn sum_of_words(header: &[u8]) -> u32 {
    let words = header
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    (sum & 0xffff) + (sum >> 16)
}

/// A frame from outside is seen with its mark, and its checksum is still right.
#[test]
fn frames_from_outside_are_seen_as_they_are() {
    let ecn = EcnSpec {
        kmin_bytes: 0,
        kmax_bytes: 1,
        pmax_percent: 100,
    };
    let switch = SwitchSpec {
        ecn: Some(ecn),
        ..SwitchSpec::default()
    };
    for ip in [Ip::V4, Ip::V6] {
        let (mut fabric, _, cables) = incast(switch, 1 << 20, 1);
        fabric.watch(cables[2], 2000);
        let link = roce_wire::Link {
            dst: [2; 6],
            src: [4; 6],
            vlans: [None; 2],
        };
        for number in 0..300_u16 {
            let id = number.wrapping_mul(0x4321);
            let network = match ip {
                Ip::V6 => NetworkHeader::V6 {
                    src: [0xfd; 16],
                    dst: [0xfe; 16],
                    traffic_class: 2,
                    flow_label: id.into(),
                    hop_limit: 9,
                },
                _ => NetworkHeader::V4 {
                    src: [10, 0, 0, 1],
                    dst: [10, 0, 0, 3],
                    tos: 1,
                    ttl: 9,
                    id,
                    flags_fragment: 0,
                    options: &[],
                },
            };
            let repr = roce_wire::FrameRepr {
                link: Some(link),
                network,
                udp: None,
            };
            let mut bytes = vec![0; repr.buffer_len(100)];
            repr.emit(&mut bytes, &[7; 100]);
            let meta = roce_stack::RxMeta {
                src: fabric.address(HostId(0)),
                dst: fabric.address(HostId(2)),
                src_port: 1,
                traffic_class: 1,
                ip: roce_stack::IpCovered::V4Hidden,
            };
            let frame = super::super::Frame {
                bytes: &bytes,
                headers: 42,
                meta,
            };
            fabric.send(HostId(0), &frame);
            fabric.send(HostId(1), &frame);
        }
        run(&mut fabric);
        let mut seen = SeenPackets::default();
        fabric.take_seen(&mut seen);
        let mut marked = 0;
        for packet in seen.iter().filter(|packet| packet.fate == Fate::Marked) {
            marked += 1;
            let header = &packet.frame[14..];
            let class = match ip {
                Ip::V6 => header[0] << 4 | header[1] >> 4,
                _ => header[1],
            };
            assert_eq!(class, 3);
            if ip == Ip::V4 {
                assert_eq!(sum_of_words(&header[..20]), 0xffff, "{header:x?}");
            }
            assert_eq!(&packet.frame[packet.frame_len - 100..], [7; 100]);
        }
        assert!(marked > 100, "{marked}");
    }
}

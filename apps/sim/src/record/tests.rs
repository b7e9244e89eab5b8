use super::*;
use crate::congestion::ns3_parameters;
use crate::connect::{ConnectSpec, connect};
use crate::dice::Dice;
use crate::fabric::tests::{End, LEN, incast, marking_switch, send_all};
use crate::fabric::{
    DropReason, EcnSpec, FabricBuilder, HostId, HostSpec, LinkSpec, SwitchId, SwitchSpec,
};
use roce_stack::{CongestionControl, Instant};
use roce_wire::{Bth, FrameRepr, Link, NetworkHeader, Opcode, Psn, Qpn, UDP_PORT, UdpHeader};

/// Runs to the end with a step every `step`.
fn record(fabric: &mut Fabric, recorder: &mut Recorder, step: Duration) {
    let mut seen = SeenPackets::default();
    let mut until = fabric.now() + step;
    loop {
        while fabric.step(until).is_some() {}
        fabric.call_at(until, 0);
        fabric.step(until);
        fabric.take_seen(&mut seen);
        recorder.add(&seen);
        recorder.step(fabric);
        if fabric.pending_events() == 0 {
            return;
        }
        until = until + step;
    }
}

#[test]
fn curves_and_totals_agree_with_the_fabric() {
    let (mut fabric, ends, cables) = incast(marking_switch(), 32 << 10, 1);
    let mut recorder = Recorder::new(&mut fabric, Limits::default());
    send_all(&mut fabric, &ends);
    record(&mut fabric, &mut recorder, Duration::from_micros(50));

    let counters = fabric.counters();
    let ports = recorder.ports();
    let sum = |of: fn(&PortTotals) -> u64| ports.iter().map(|port| of(&port.totals)).sum::<u64>();
    assert_eq!(sum(|totals| totals.marked), counters.marked);
    assert_eq!(sum(|totals| totals.drops.total()), counters.dropped);
    assert!(counters.marked > 0 && counters.dropped > 0);
    for record in ports {
        let mut sum = PortTotals::default();
        for (_, totals) in record.curve.iter() {
            sum.add(totals);
        }
        assert_eq!(sum, record.totals);
    }

    // The port to the receiver: its queue was as long as it may be, and never longer.
    let port = ports
        .iter()
        .find(|record| record.port.cable == cables[2] && record.port.from == SwitchId(0).into());
    let totals = port.expect("its port").totals;
    assert!(totals.longest_queue > 28 << 10 && totals.longest_queue <= 32 << 10);
    assert!(totals.mean_queue() > 100.0 && totals.mean_queue() < totals.longest_queue as f64);
    assert_eq!(totals.drops.of(DropReason::QueueFull), totals.drops.total());

    let data: Vec<&FlowRecord> = recorder.data_flows().collect();
    assert_eq!(data.len(), 2);
    for (flow, pair) in data.iter().zip(ends.chunks(2)) {
        assert_eq!(flow.key.dest_qpn, Some(pair[1].qpn.get()));
        assert_eq!(flow.key.dst_port, UDP_PORT);
        assert!(flow.payload_bytes >= 4 * LEN as u64);
        assert!(flow.arrived_bytes > flow.payload_bytes);
        assert_eq!(
            flow.sent_packets,
            flow.arrived_packets + flow.drops.total(),
            "{flow:?}"
        );
        let arrivals: u64 = flow.arrivals.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(arrivals, flow.arrived_bytes);
        assert!(flow.time() > Duration::from_micros(300));
        assert!(flow.links.is_empty());
    }
    let dropped: u64 = recorder.flows().iter().map(|f| f.drops.total()).sum();
    assert_eq!(dropped, counters.dropped);
    let marked: u64 = recorder.flows().iter().map(|f| f.marked).sum();
    assert!(marked > 0 && marked <= counters.marked);
    let jain = recorder.fairness().expect("flows");
    assert!((0.5..=1.0).contains(&jain), "{jain}");
    let times = recorder.completion_times();
    assert_eq!(recorder.completion_time(50.0), Some(times[0]));
    assert_eq!(recorder.completion_time(99.0), Some(times[1]));
    assert_eq!(recorder.unrecorded(), Unrecorded::default());
}

/// CNPs are counted for their hosts and are no flows.
#[test]
fn cnps_are_counted() {
    let mark_all = EcnSpec {
        kmin_bytes: 0,
        kmax_bytes: 1,
        pmax_percent: 100,
    };
    let switch = SwitchSpec {
        ecn: Some(mark_all),
        ..SwitchSpec::default()
    };
    let (mut fabric, ends, _) = incast(switch, 1 << 20, 1);
    for host in 0..fabric.hosts() {
        let control = CongestionControl::Dcqcn(ns3_parameters());
        fabric.nic(HostId(host)).set_congestion_control(control);
    }
    let mut recorder = Recorder::new(&mut fabric, Limits::default());
    send_all(&mut fabric, &ends);
    record(&mut fabric, &mut recorder, Duration::from_micros(50));
    let [from, to] = [HostId(0), HostId(2)].map(|host| fabric.address(host));
    assert!(recorder.cnps(to, from) > 0);
    assert_eq!(recorder.cnps(from, to), 0);
}

/// The links between switches that a flow took, here one there and another back.
#[test]
fn flows_name_the_links_between_switches() {
    let mut builder = FabricBuilder::new();
    let switches = [SwitchSpec::default(); 2].map(|spec| builder.switch(spec));
    let hosts = [HostSpec::default(); 2].map(|spec| builder.host(spec));
    builder.cable(hosts[0], switches[0], LinkSpec::default());
    builder.cable(hosts[1], switches[1], LinkSpec::default());
    let between = builder.cable(switches[0], switches[1], LinkSpec::default());
    let mut fabric = builder.build(1);
    let ends = hosts.map(|host| End::new(&mut fabric, host));
    let pair = [(ends[0].host, ends[0].qpn), (ends[1].host, ends[1].qpn)];
    connect(&mut fabric, pair, &ConnectSpec::default()).expect("connected");
    let mut recorder = Recorder::new(&mut fabric, Limits::default());
    ends[0].write_to(&mut fabric, &ends[1], 1);
    record(&mut fabric, &mut recorder, Duration::from_micros(10));
    let [data, acks] = recorder.flows() else {
        panic!("{} flows", recorder.flows().len());
    };
    assert!(data.has_data() && !acks.has_data());
    let there = (between, NodeId::from(switches[0]));
    let back = (between, NodeId::from(switches[1]));
    assert_eq!(data.links, [(there, data.arrived_bytes)]);
    assert_eq!(acks.links, [(back, acks.arrived_bytes)]);
}

#[test]
fn memory_is_bounded() {
    let (mut fabric, ends, _) = incast(SwitchSpec::default(), 1 << 20, 1);
    let limits = Limits {
        flows: 1,
        points: 8,
    };
    let mut recorder = Recorder::new(&mut fabric, limits);
    send_all(&mut fabric, &ends);
    record(&mut fabric, &mut recorder, Duration::from_nanos(3300));
    let axis = recorder.axis();
    assert!((4..=8).contains(&axis.len()), "{}", axis.len());
    assert_eq!(axis.end(), fabric.now());
    assert_eq!(axis.begin(), Instant::ZERO);
    let lengths: Duration = (0..axis.len()).map(|index| axis.length(index)).sum();
    assert_eq!(Instant::ZERO + lengths, fabric.now());
    let first = axis.length(0);
    assert!((1..axis.len() - 1).all(|index| axis.length(index) == first));
    let [flow] = recorder.flows() else {
        panic!("{} flows", recorder.flows().len());
    };
    let arrivals: u64 = flow.arrivals.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(arrivals, flow.arrived_bytes);
    assert!(recorder.unrecorded().packets_beyond_limit > 0);
    for record in recorder.ports() {
        let mut sum = PortTotals::default();
        for (_, totals) in record.curve.iter() {
            sum.add(totals);
        }
        assert_eq!(sum, record.totals);
    }
}

#[test]
fn halved_curves_keep_their_place() {
    let mut curve = Curve::default();
    for index in 3..8 {
        curve.add(index, &(index as u64));
    }
    curve.halve();
    let values: Vec<(usize, u64)> = curve.iter().map(|(index, value)| (index, *value)).collect();
    assert_eq!(values, [(1, 3), (2, 4 + 5), (3, 6 + 7)]);
    assert_eq!(curve.get(0), None);
    assert_eq!(curve.get(3), Some(&13));
    assert_eq!(curve.get(4), None);
}

/// A RoCEv2 frame of a message with 100 bytes of payload.
fn roce_frame(network: NetworkHeader<'_>) -> Vec<u8> {
    let repr = FrameRepr {
        link: Some(Link {
            dst: [2; 6],
            src: [4; 6],
            vlans: [
                Some(roce_wire::VlanTag {
                    tpid: 0x8100,
                    tci: 5,
                }),
                None,
            ],
        }),
        network,
        udp: Some(UdpHeader {
            src_port: 0xc001,
            dst_port: UDP_PORT,
            checksum: 0,
        }),
    };
    let qpn = Qpn::new(0x1234).expect("24 bits");
    let mut transport = [0; Bth::LEN + 100 + 4];
    Bth::new(Opcode::RC_SEND_ONLY, qpn, Psn::new(7)).emit(&mut transport);
    let mut frame = vec![0; repr.buffer_len(transport.len())];
    repr.emit(&mut frame, &transport);
    frame
}

fn v4(tos: u8) -> NetworkHeader<'static> {
    NetworkHeader::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
        tos,
        ttl: 64,
        id: 1,
        flags_fragment: 0,
        options: &[1, 1, 1, 0],
    }
}

fn v6() -> NetworkHeader<'static> {
    NetworkHeader::V6 {
        src: [0xfd; 16],
        dst: [0xfe; 16],
        traffic_class: 3,
        flow_label: 0,
        hop_limit: 1,
    }
}

#[test]
fn frames_are_parsed() {
    let parsed = frame::parse(&roce_frame(v4(2))).expect("a RoCE frame");
    let expected = FlowKey {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: 17,
        src_port: 0xc001,
        dst_port: UDP_PORT,
        dest_qpn: Some(0x1234),
    };
    assert_eq!(parsed.key, expected);
    assert_eq!((parsed.payload_bytes, parsed.is_marked), (100, false));
    let parsed = frame::parse(&roce_frame(v6())).expect("a RoCE frame");
    assert_eq!(parsed.key.src, IpAddr::from([0xfd; 16]));
    assert_eq!(parsed.key.dst, IpAddr::from([0xfe; 16]));
    assert_eq!(parsed.key.dest_qpn, Some(0x1234));
    assert_eq!((parsed.payload_bytes, parsed.is_marked), (100, true));
}

/// A frame with IPv4 and `transport`, whose contents are cut off.
fn v4_frame(protocol: u8, fragment_offset: u8, total_len: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, total_len, 0, 0, 0, fragment_offset]);
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(transport);
    frame
}

#[test]
fn other_protocols_are_flows_too() {
    let mut tcp = [0; 20];
    tcp[..4].copy_from_slice(&[0, 80, 1, 0]);
    tcp[12] = 5 << 4;
    let parsed = frame::parse(&v4_frame(6, 0, 20 + 20 + 7, &tcp)).expect("a segment");
    let FlowKey {
        src_port, dst_port, ..
    } = parsed.key;
    assert_eq!((src_port, dst_port, parsed.payload_bytes), (80, 256, 7));
    let icmp = frame::parse(&v4_frame(1, 0, 20 + 64, &[])).expect("a ping");
    assert_eq!((icmp.key.protocol, icmp.payload_bytes), (1, 64));
    let fragment = frame::parse(&v4_frame(17, 9, 20 + 64, &[])).expect("a fragment");
    assert_eq!((fragment.key.dst_port, fragment.payload_bytes), (0, 64));
    // A length shorter than the header, and an ARP request.
    assert_eq!(frame::parse(&v4_frame(6, 0, 20 + 19, &tcp)), None);
    assert_eq!(frame::parse(&v4_frame(6, 0, 19, &tcp)), None);
    let mut arp = [0; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(frame::parse(&arp), None);
}

/// Frames that are cut off, and frames with flipped bits, are parsed without a panic.
#[test]
fn hostile_frames_do_no_harm() {
    let mut dice = Dice::new(1);
    let tcp = v4_frame(6, 0, 60, &[0; 40]);
    for frame in [roce_frame(v4(0)), roce_frame(v6()), tcp] {
        for len in 0..frame.len() {
            frame::parse(&frame[..len]);
        }
        for _ in 0..20_000 {
            let mut frame = frame.clone();
            for _ in 0..dice.below(6) {
                let at = dice.below(frame.len().min(70) as u64) as usize;
                frame[at] = dice.number() as u8;
            }
            let len = dice.below(frame.len() as u64 + 1) as usize;
            let parsed = frame::parse(&frame[..len]);
            assert!(parsed.is_none_or(|parsed| parsed.payload_bytes <= 65535));
        }
    }
}

//! RoCE v1 over veth pairs: the frames on the wire, and the frames that are accepted. These tests
//! need root.

mod support;

use std::collections::VecDeque;
use std::net::IpAddr;

use pnet_datalink::{Channel, Config, DataLinkReceiver, DataLinkSender};
use roce_port::Port;
use roce_stack::{Flow, IpCovered, ReserveError, RoceVersion, RxMeta, Transmit, TxMeta};
use roce_wire::{FrameRepr, Grh, Link, NetworkHeader, Qpn, VlanTag};
use roce_xdp::XdpPort;
use roce_xdp::net::{Priority, RxDrop, Tagging};
use roce_xdp::program::AttachMode;
use support::ports::{
    Received, assert_no_chunk_is_lost, config, cross, cross_with_version, drive, from_to, open,
    open_with, send,
};
use support::{TIMEOUT, bytes, wait_for};
use testkit::veth::{End, Pair};

/// The lengths of packets with path MTU 256 to 4096, some of them longer than a chunk.
const LENS: [usize; 6] = [16, 272, 1040, 3797, 3830, 4128];

fn open_v1(end: &End, mtu: usize, attach: AttachMode, tagging: Tagging) -> XdpPort {
    let mut config = config(end, mtu, 1, attach);
    config.redirect.roce_v1 = true;
    config.net.tagging = tagging;
    open_with(end, config)
}

fn v1(from: &End, to: &End, ipv6: bool) -> TxMeta {
    TxMeta {
        version: RoceVersion::V1,
        ..from_to(from, to, ipv6)
    }
}

// shows: A16-stack
#[test]
fn packets_cross_with_and_without_a_tag() {
    let Some(pair) = Pair::new_or_skip(4300, 1) else {
        return;
    };
    let tag = VlanTag {
        tpid: 0x8100,
        tci: 5,
    };
    let tagged = Tagging::Fixed(tag, Priority::FromDscp);
    for (attach, tagging) in [
        (AttachMode::Native, Tagging::None),
        (AttachMode::Generic, Tagging::None),
        (AttachMode::Native, tagged),
    ] {
        let [mut near, mut far] =
            [&pair.near, &pair.far].map(|end| open_v1(end, 4300, attach, tagging));
        cross_with_version(RoceVersion::V1, &pair, &mut near, &mut far, &LENS);
        // Both versions have the ports of one interface.
        cross(&pair, &mut near, &mut far, &LENS);
        for port in [&mut near, &mut far] {
            assert_no_chunk_is_lost(port);
        }
    }
}

/// A socket for whole frames.
fn frames(end: &End) -> (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>) {
    end.enter(|| {
        let interface = pnet_datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == end.interface)
            .expect("the interface is there");
        let config = Config {
            read_timeout: Some(TIMEOUT),
            ..Config::default()
        };
        match pnet_datalink::channel(&interface, config).expect("root may") {
            Channel::Ethernet(sender, receiver) => (sender, receiver),
            _ => panic!("no Ethernet"),
        }
    })
}

fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The expected RoCE v1 frame of a packet along this path.
fn framed(
    (src, dst): ([u8; 6], [u8; 6]),
    tag: Option<VlanTag>,
    to: &TxMeta,
    packet: &[u8],
) -> Vec<u8> {
    let repr = FrameRepr {
        link: Some(Link {
            dst,
            src,
            vlans: [tag, None],
        }),
        network: NetworkHeader::Grh(Grh {
            traffic_class: to.traffic_class,
            flow_label: 0,
            payload_len: 0,
            next_header: Grh::NEXT_HEADER_BTH,
            hop_limit: to.hop_limit,
            sgid: gid(to.src),
            dgid: gid(to.dst),
        }),
        udp: None,
    };
    let mut frame = vec![0; repr.buffer_len(packet.len())];
    repr.emit(&mut frame, packet);
    frame
}

/// Checks frames byte by byte: Ethernet header, GRH with traffic class and hop limit, and packet.
// shows: A16-ethertype, A16-grh, A16-next-hop
#[test]
fn the_wire_has_a_grh_after_the_ethernet_header() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    // Its link-local address is made from its Ethernet address, as the kernel makes it.
    let made = "fe80::ff:fe00:9102";
    pair.far
        .run(&format!("ip address add {made}/64 dev far nodad"));
    let (_sender, mut wire) = frames(&pair.far);
    let mut near = open_v1(&pair.near, 1500, AttachMode::Auto, Tagging::None);
    near.activate("fe80::1".parse().expect("an address"))
        .expect("its own");
    let link_local = TxMeta {
        src: "fe80::1".parse().expect("an address"),
        dst: made.parse().expect("an address"),
        ..v1(&pair.near, &pair.far, true)
    };
    let [ipv4, ipv6] = [false, true].map(|ipv6| v1(&pair.near, &pair.far, ipv6));
    for (number, path) in [ipv4, ipv6, link_local].into_iter().enumerate() {
        let to = TxMeta {
            hop_limit: 9,
            ..path
        };
        near.check(&to).expect("on the link");
        let packet = bytes(number, 100);
        send(&mut near, &to, &packet);
        let want = framed((pair.near.mac, pair.far.mac), None, &to, &packet);
        // The kernel's ARP and neighbour discovery requests arrive, too.
        wait_for("the frame", || {
            near.follow_network().expect("a network");
            near.flush().expect("a port that works");
            (wire.next().expect("a frame in time") == want).then_some(())
        });
    }
}

/// Handmade frames: untagged, with a tag only for the priority, with the tag of another VLAN, with
/// an invalid GRH, and to other addresses.
// shows: A16-grh
#[test]
fn only_valid_v1_frames_to_this_port_are_accepted() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let (mut sender, _wire) = frames(&pair.far);
    let mut near = open_v1(&pair.near, 1500, AttachMode::Auto, Tagging::None);
    let macs = (pair.far.mac, pair.near.mac);
    let tag = |tci| VlanTag { tpid: 0x8100, tci };
    let mut put = |frame: &[u8]| {
        sender
            .send_to(frame, None)
            .expect("room")
            .expect("it leaves");
    };
    let mut received = VecDeque::new();
    let mut want: VecDeque<Received> = VecDeque::new();
    for (number, vlan) in [None, Some(tag(0xa000)), Some(tag(5))]
        .into_iter()
        .enumerate()
    {
        for ipv6 in [false, true] {
            let to = TxMeta {
                hop_limit: 1,
                ..v1(&pair.far, &pair.near, ipv6)
            };
            let packet = bytes(number, 200);
            let frame = framed(macs, vlan, &to, &packet);
            put(&frame);
            let mut odd = frame.clone();
            odd[frame.len() - 200 - 34] = 17;
            put(&odd);
            if number < 2 {
                let meta = RxMeta {
                    src: to.src,
                    dst: to.dst,
                    src_port: 0,
                    traffic_class: to.traffic_class,
                    ip: IpCovered::Grh,
                };
                want.push_back((meta, packet));
            }
        }
    }
    wait_for("all frames", || {
        let sink = &mut |meta: &RxMeta, packet: &[u8]| received.push_back((*meta, packet.to_vec()));
        near.receive(64, sink).expect("a port that works");
        let other = near.net().counters().rx_dropped(RxDrop::OtherVlan);
        (received.len() == 4 && other == 2).then_some(())
    });
    assert!(received == want);
}

/// A port without RoCE v1 enabled neither sends nor accepts it.
#[test]
fn roce_v1_is_off_by_default() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open_v1(&pair.near, 1500, AttachMode::Auto, Tagging::None);
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    assert!(near.carries(RoceVersion::V1) && !far.carries(RoceVersion::V1));
    let refused = far.reserve_run(
        &v1(&pair.far, &pair.near, false),
        Flow::new(Qpn::QP0, Qpn::QP0),
        None,
        100,
        1,
    );
    assert_eq!(refused.err(), Some(ReserveError::Unsendable));
    send(&mut near, &v1(&pair.near, &pair.far, false), &bytes(1, 100));
    // A later RoCEv2 packet arrives, and no other.
    let want = send(
        &mut near,
        &from_to(&pair.near, &pair.far, false),
        &bytes(2, 100),
    );
    let mut received = VecDeque::new();
    wait_for("a packet", || {
        drive(&mut near, &mut far, &mut received);
        (!received.is_empty()).then_some(())
    });
    assert!(received == [want]);
}

// shows: A16-next-hop
#[test]
fn destinations_behind_a_router_are_refused_with_a_message() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open_v1(&pair.near, 1500, AttachMode::Auto, Tagging::None);
    let to = TxMeta {
        dst: IpAddr::from([192, 0, 2, 1]),
        ..v1(&pair.near, &pair.far, false)
    };
    let said = near.check(&to).expect_err("no way").to_string();
    assert!(said.contains("no route leads there"), "{said}");
    pair.near.run("ip route add default via 10.91.0.2");
    near.follow_network().expect("a network");
    let said = near.check(&to).expect_err("a router").to_string();
    assert!(
        said.contains("gateway") && said.contains("192.0.2.1"),
        "{said}"
    );
    let refused = near
        .reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, 100, 1)
        .err();
    assert_eq!(refused, Some(ReserveError::Unsendable));
    let by_v2 = TxMeta {
        version: RoceVersion::V2,
        ..to
    };
    near.check(&by_v2).expect("routers are no business of it");
    assert!(
        near.reserve_run(&by_v2, Flow::new(Qpn::QP0, Qpn::QP0), None, 100, 1)
            .is_ok()
    );
}

#[test]
fn packets_to_own_addresses_are_looped_back() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut port = open_v1(&pair.near, 1500, AttachMode::Auto, Tagging::None);
    for ipv6 in [false, true] {
        let want = send(&mut port, &v1(&pair.near, &pair.near, ipv6), &bytes(1, 100));
        assert_eq!(want.0.ip, IpCovered::Grh);
        let mut received = Vec::new();
        let mut sink = |meta: &RxMeta, packet: &[u8]| received.push((*meta, packet.to_vec()));
        assert_eq!(port.receive(64, &mut sink).expect("a port that works"), 1);
        assert!(received == [want]);
    }
}

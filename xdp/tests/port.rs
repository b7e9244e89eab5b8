//! Tests ports over veth pairs with packets of all lengths, in every mode. These tests need root.

mod support;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roce_port::Port;
use roce_stack::{Flow, ReserveError, RxMeta, Transmit, TxMeta};
use roce_wire::{Qpn, VlanTag};
use roce_xdp::net::{Priority, RxDrop, Tagging};
use roce_xdp::program::AttachMode;
use support::ports::{
    Received, assert_no_chunk_is_lost, config, cross, drive, from_to, open, open_udp, open_with,
    send,
};
use support::{bytes, wait_for};
use testkit::veth::Pair;

/// Lengths for every path MTU, and some at chunk boundaries.
const LENS: [usize; 10] = [16, 64, 272, 528, 1040, 2064, 3797, 3800, 4112, 4128];

fn packets_cross(attach: AttachMode, queues: u32) {
    let Some(pair) = Pair::new_or_skip(4300, queues) else {
        return;
    };
    let mut near = open(&pair.near, 4300, queues, attach);
    let mut far = open(&pair.far, 4300, queues, attach);
    // At first, neither port knows its neighbour.
    cross(&pair, &mut near, &mut far, &LENS);
    cross(&pair, &mut near, &mut far, &[4112; 30]);
    for port in [&mut near, &mut far] {
        assert_no_chunk_is_lost(port);
    }
}

#[test]
fn packets_cross_in_native_mode() {
    packets_cross(AttachMode::Native, 1);
}

#[test]
fn packets_cross_in_generic_mode() {
    packets_cross(AttachMode::Generic, 1);
}

#[test]
fn packets_cross_with_two_queues() {
    packets_cross(AttachMode::Auto, 2);
}

#[test]
fn udp_ports_and_xdp_ports_interoperate() {
    let Some(pair) = Pair::new_or_skip(4300, 1) else {
        return;
    };
    let mut xdp = open(&pair.near, 4300, 1, AttachMode::Auto);
    let mut udp = open_udp(&pair.far, 4300);
    cross(&pair, &mut xdp, &mut udp, &LENS);
    let pair = Pair {
        near: pair.far,
        far: pair.near,
    };
    cross(&pair, &mut udp, &mut xdp, &LENS);
    cross(&pair, &mut udp, &mut xdp, &[1040; 30]);
    assert_no_chunk_is_lost(&mut xdp);
}

#[test]
fn packets_cross_in_a_vlan() {
    let Some(pair) = Pair::new_or_skip(4300, 1) else {
        return;
    };
    let open = |end, vid, attach| {
        let mut config = config(end, 4300, 1, attach);
        let tag = VlanTag {
            tpid: 0x8100,
            tci: vid,
        };
        config.net.tagging = Tagging::Fixed(tag, Priority::FromDscp);
        open_with(end, config)
    };
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let mut near = open(&pair.near, 5, attach);
        let mut far = open(&pair.far, 5, attach);
        cross(&pair, &mut near, &mut far, &LENS);
        assert_no_chunk_is_lost(&mut near);
        drop(near);
        // Send a frame of another VLAN first, then one of this VLAN.
        let mut other = open(&pair.near, 6, attach);
        send(
            &mut other,
            &from_to(&pair.near, &pair.far, false),
            &bytes(1, 100),
        );
        assert!(other.flush().expect("a port that works"));
        drop(other);
        let mut near = open(&pair.near, 5, attach);
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
        assert_eq!(far.net().counters().rx_dropped(RxDrop::OtherVlan), 1);
    }
}

#[test]
fn packets_to_own_addresses_are_looped_back() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut port = open(&pair.near, 1500, 1, AttachMode::Auto);
    for ipv6 in [false, true] {
        let to = from_to(&pair.near, &pair.near, ipv6);
        let sent: Vec<Received> = (1..50)
            .map(|number| send(&mut port, &to, &bytes(number, number * 20)))
            .collect();
        assert!(port.has_looped());
        let mut received = Vec::new();
        let mut sink = |meta: &RxMeta, packet: &[u8]| received.push((*meta, packet.to_vec()));
        assert_eq!(port.receive(64, &mut sink).expect("a port that works"), 49);
        assert!(received == sent);
    }
}

#[test]
fn groups_can_be_joined_and_left() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    for (ipv6, group) in [(false, "239.9.1.2"), (true, "ff15::91")] {
        let group: IpAddr = group.parse().expect("an address");
        let to = TxMeta {
            dst: group,
            ..from_to(&pair.near, &pair.far, ipv6)
        };
        pair.far.enter(|| far.join(group)).expect("multicast");
        pair.far.enter(|| far.join(group)).expect("nothing to do");
        let want = send(&mut near, &to, &bytes(1, 100));
        let mut received = VecDeque::new();
        wait_for("the packet", || {
            drive(&mut near, &mut far, &mut received);
            received.pop_front()
        });
        // Now the sender is a member, too.
        pair.near.enter(|| near.join(group)).expect("multicast");
        let again = send(&mut near, &to, &bytes(2, 100));
        assert_ne!(want.1, again.1);
        let mut own = Vec::new();
        near.receive(9, &mut |meta: &RxMeta, packet: &[u8]| {
            own.push((*meta, packet.to_vec()))
        })
        .expect("a port that works");
        assert!(own == [again.clone()]);
        far.leave(group);
        let last = from_to(&pair.near, &pair.far, ipv6);
        send(&mut near, &to, &bytes(3, 100));
        let want = send(&mut near, &last, &bytes(4, 100));
        let got = wait_for("a packet", || {
            drive(&mut near, &mut far, &mut received);
            received
                .iter()
                .position(|got| *got == want)
                .map(|_| received.clone())
        });
        assert!(
            got.iter().all(|(_, packet)| *packet != bytes(3, 100)),
            "left, and received even so"
        );
        near.leave(group);
    }
    let error = near
        .join("10.91.0.9".parse().expect("an address"))
        .expect_err("no group");
    assert!(error.to_string().contains("10.91.0.9"), "{error}");
}

#[test]
fn joining_fails_when_the_program_has_too_many_addresses() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("up to the hard limit");
    let mut port = open(&pair.near, 1500, 1, AttachMode::Auto);
    // Each joined group takes a socket, and one of the 1,024 addresses of the program.
    let mut joined = (0..2048_u32).map(|n| IpAddr::from(Ipv4Addr::from(0xefc0_0000 + n)));
    let refused = joined.find_map(|group| {
        let outcome = pair.near.enter(|| port.join(group));
        outcome.err().map(|error| (group, error.to_string()))
    });
    let (group, first) = refused.expect("the table has an end");
    let again = pair.near.enter(|| port.join(group));
    let again = again.expect_err("still no room").to_string();
    assert_eq!(again, first, "the group was not left");
}

#[test]
fn unsendable_packets_are_counted() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut port = open(&pair.near, 1500, 1, AttachMode::Auto);
    let good = from_to(&pair.near, &pair.far, false);
    let bad = [
        (good, 0),
        (good, 1500 - 28 + 1),
        (from_to(&pair.near, &pair.far, true), 1500 - 48 + 1),
        (
            TxMeta {
                src: IpAddr::from([10, 91, 0, 9]),
                ..good
            },
            100,
        ),
        (
            TxMeta {
                dst: IpAddr::from([192, 0, 2, 1]),
                ..good
            },
            100,
        ),
        (
            TxMeta {
                dst: pair.far.ip6.into(),
                ..good
            },
            100,
        ),
    ];
    for (number, (to, len)) in bad.into_iter().enumerate() {
        assert_eq!(
            port.reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP0), None, len, 1)
                .err(),
            Some(ReserveError::Unsendable),
            "{to:?} {len}"
        );
        assert_eq!(port.counters().tx_unsendable, number as u64 + 1);
    }
    assert!(
        port.reserve_run(&good, Flow::new(Qpn::QP0, Qpn::QP0), None, 1500 - 28, 1)
            .is_ok()
    );
    assert_eq!(port.capabilities().max_packet_bytes, 1500 - 48);
    let error = port
        .activate(IpAddr::from([192, 0, 2, 7]))
        .expect_err("not its own");
    assert!(
        error.to_string().contains("10.91.0.1") && error.to_string().contains("near"),
        "{error}"
    );
}

#[test]
fn a_port_can_move_to_another_thread() {
    fn check<T: Send>() {}
    check::<roce_xdp::XdpPort>();
}

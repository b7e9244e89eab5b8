//! Multicast groups (IBTA 1.7, 10.5).

use super::{GRH, destination, setup};
use crate::sim::{A, B, Hand, Ip, Pair, QKEY, Setup};
use roce_stack::{
    DropReason, MulticastError, QpInit, QpKind, QueueLimits, RecvRequest, SendRequest,
};
use roce_wire::Qpn;
use std::net::IpAddr;

fn group(ip: Ip) -> IpAddr {
    match ip {
        Ip::V4 | Ip::V4Hidden | Ip::Grh => "239.1.2.3".parse().expect("valid"),
        Ip::V6 => "ff12::1234".parse().expect("valid"),
    }
}

/// Adds a UD QP in RTS to the node.
fn another(hand: &mut Hand) -> Qpn {
    let node = &mut hand.node;
    let size = QueueLimits {
        depth: 4,
        max_sge: 1,
    };
    let init = QpInit {
        signal_all: false,
        ..node.init(QpKind::Ud, size)
    };
    let qpn = node.nic.create_qp(init).expect("a QP");
    let path = roce_stack::TxMeta {
        src: node.address,
        dst: node.address,
        traffic_class: 0,
        hop_limit: 0,
        version: hand.setup.ip.version(),
    };
    let setup = hand.setup;
    for step in [setup.init(), setup.rtr(path, qpn, 0), setup.rts(0)] {
        node.nic.modify_qp(hand.now, qpn, &step).expect("legal");
    }
    qpn
}

/// A message to a group reaches the other end, and its attached QP.
// shows: 9.8.3-multicast
#[test]
fn a_group_is_reached_over_the_wire() {
    for ip in Ip::ALL {
        let mut pair = Pair::new(Setup { ip, ..setup() });
        let (out, inbox) = (pair.mem(A, 64), pair.mem(B, 128));
        let qpn = pair.nodes[B].qpn;
        let first = pair.nodes[B].nic.attach_multicast(qpn, group(ip));
        assert_eq!(first, Ok(true));
        out.write(0, b"to all");
        pair.post_recv(B, 1, &[inbox.sge(0, 128)]);
        let to = destination(&pair.nodes[A], group(ip), Qpn::MULTICAST, QKEY);
        pair.post_request(A, &SendRequest::send(out.sge(0, 6)).id(1).to(to));
        pair.run();
        pair.assert_sent(A, &[1]);
        let done = pair.assert_received(B, &[1])[0];
        assert_eq!(
            done.source.map(|source| source.qpn),
            Some(pair.nodes[A].qpn)
        );
        assert_eq!(inbox.read(GRH, 6), b"to all");
    }
}

/// Every attached QP gets a copy, the sender included if the port loops it back. A QP without a
/// receive loses only its own copy, and a QP that left gets no copy.
// shows: 9.8.3-multicast
#[test]
fn every_attached_qp_gets_a_copy() {
    let mut hand = Hand::new(setup());
    let group = group(hand.setup.ip);
    let mem = hand.mem(4 * 128);
    let (a, b, c) = (hand.node.qpn, another(&mut hand), another(&mut hand));
    for (qpn, first) in [(a, true), (b, false), (c, false), (b, false)] {
        assert_eq!(hand.node.nic.attach_multicast(qpn, group), Ok(first));
    }
    assert_eq!(hand.node.nic.multicast_members(group), [a, b, c]);
    let to = destination(&hand.node, group, Qpn::MULTICAST, QKEY);

    let round = |hand: &mut Hand, ready: &[Qpn], expected: &[Qpn]| {
        for (i, qpn) in ready.iter().enumerate() {
            let sges = [mem.sge(i * 128, 128)];
            let wr = RecvRequest {
                wr_id: qpn.get().into(),
                sges: &sges,
            };
            hand.node
                .nic
                .post_recv(hand.now, *qpn, &wr)
                .expect("posted");
        }
        hand.post_request(&SendRequest::send(mem.sge(500, 4)).id(1).to(to));
        hand.node.nic.transmit(hand.now, &mut hand.node.port);
        let frame = hand.node.port.out.remove(0);
        assert_eq!(frame.meta.dst, group);
        hand.node.nic.receive(hand.now, &frame.meta, &frame.bytes);
        let got: Vec<Qpn> = hand.node.received().iter().map(|done| done.qpn).collect();
        assert_eq!(got, expected);
    };
    round(&mut hand, &[a, b, c], &[a, b, c]);
    round(&mut hand, &[a, c], &[a, c]);
    assert_eq!(hand.drops(DropReason::NoReceive), 1);

    assert_eq!(hand.node.nic.detach_multicast(a, group), Ok(false));
    let gone = Err(MulticastError::NotAttached { qpn: a, group });
    assert_eq!(hand.node.nic.detach_multicast(a, group), gone);
    round(&mut hand, &[b, c], &[b, c]);
    assert!(hand.node.nic.destroy_qp(b));
    round(&mut hand, &[c], &[c]);
    assert_eq!(hand.node.nic.detach_multicast(c, group), Ok(true));
    round(&mut hand, &[], &[]);
    assert_eq!(hand.drops(DropReason::NoGroup), 1);
}

/// A multicast address and a QPN other than multicast's don't belong together.
// shows: 9.8.3-multicast-number
#[test]
fn a_group_needs_its_number() {
    let mut hand = Hand::new(setup());
    let group = group(hand.setup.ip);
    let (qpn, mem) = (hand.node.qpn, hand.mem(128));
    hand.post_recv(1, &[mem.sge(0, 128)]);
    hand.node
        .nic
        .attach_multicast(qpn, group)
        .expect("attached");
    let mut meta = hand.meta();
    meta.dst = group;
    let bth = hand.bth(roce_wire::Opcode::UD_SEND_ONLY, 0);
    hand.deliver_from(meta, bth, super::deth(QKEY), &[1; 4]);
    assert_eq!(hand.drops(DropReason::NoGroup), 1);
    assert!(hand.node.received().is_empty());
}

// shows: 9.8.3-multicast-ud
#[test]
fn only_datagrams_and_groups_go_together() {
    let mut hand = Hand::new(setup());
    let (qpn, unicast) = (hand.node.qpn, hand.node.address);
    let nic = &mut hand.node.nic;
    let refused = Err(MulticastError::NotMulticast(unicast));
    assert_eq!(nic.attach_multicast(qpn, unicast), refused);
    let nobody = Qpn::from_bits(qpn.get() ^ 1);
    let refused = Err(MulticastError::UnknownQp(nobody));
    assert_eq!(nic.attach_multicast(nobody, group(Ip::V4)), refused);
    for kind in [QpKind::Rc, QpKind::Uc] {
        let mut hand = Hand::new(Setup { kind, ..setup() });
        let qpn = hand.node.qpn;
        let refused = Err(MulticastError::NotDatagram { kind });
        assert_eq!(hand.node.nic.attach_multicast(qpn, group(Ip::V4)), refused);
    }
}

//! The reports about QPs: their traffic, and the list of QPs.

use crate::sim::{Hand, Setup};
use roce_stack::{QpKind, QpState, QpTraffic, SendOp, Stat};
use roce_wire::{ExtHeaders, Opcode};

/// Packets that a QP sends, retransmits and receives count for it and no other.
#[test]
fn traffic_counts_for_the_qp_whose_it_is() {
    let mut hand = Hand::new(Setup::default());
    let other = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
    let mem = hand.mem(3000);
    hand.post(1, SendOp::Send, &[mem.sge(0, 3000)]);
    assert_eq!(hand.out().len(), 3);
    hand.timeout();
    hand.out();
    hand.ack(hand.setup.psn[0] + 2);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.out();
    let (nic, qpn) = (&hand.node.nic, hand.node.qpn);
    let status = nic.qp_status(hand.now, qpn).expect("a QP");
    let whole = |stat| nic.counters().stat(stat);
    let traffic = status.traffic;
    assert_eq!((traffic.rx_packets, traffic.rx_bytes), (2, 8));
    assert!(traffic.retransmitted > 0 && traffic.tx_bytes > 3000);
    assert_eq!(traffic.retransmitted, whole(Stat::Retransmitted));
    assert_eq!(traffic.tx_packets, whole(Stat::TxPackets));
    assert_eq!(traffic.tx_bytes, whole(Stat::TxBytes));
    assert_eq!((status.sends, status.receives), (0, 0));
    assert_eq!(status.path.map(|path| path.dst), Some(hand.meta().src));
    assert_eq!(status.state, QpState::Rts);
    let status = nic.qp_status(hand.now, other).expect("a QP");
    assert_eq!(status.traffic, QpTraffic::default());
    assert_eq!((status.peer, status.state), (None, QpState::Reset));
}

#[test]
fn every_qp_is_listed_once() {
    let mut hand = Hand::new(Setup::default());
    let first = hand.node.qpn;
    let second = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
    let nic = &mut hand.node.nic;
    let mut listed = nic.qpns();
    listed.sort_by_key(|qpn| *qpn == second);
    assert_eq!(listed, [first, second]);
    nic.destroy_qp(first);
    assert_eq!(nic.qpns(), [second]);
    assert_eq!(nic.qp_status(hand.now, first), None);
}

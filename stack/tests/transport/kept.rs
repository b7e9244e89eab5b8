//! The reports to a port that keeps the memory of sent packets.

use crate::sim::{A, B, Faults, Hand, PEER_QPN, Pair, Setup, pattern};
use roce_stack::{Acknowledged, Flow, Position, QpState, SendOp};
use roce_wire::{ExtHeaders, Opcode, PathMtu};

/// One NIC whose port keeps packets.
fn keeping() -> Hand {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    hand.node.port.keeps = true;
    hand
}

fn flow(hand: &Hand) -> Flow {
    Flow::new(hand.node.qpn, PEER_QPN)
}

/// The positions of the packets that the port keeps.
fn kept(hand: &Hand) -> Vec<Position> {
    hand.node.port.sent().positions(flow(hand))
}

/// The reports since the last call.
fn reports(hand: &mut Hand) -> Vec<Acknowledged> {
    let reports = std::mem::take(&mut hand.node.port.reports);
    let which = |(of, which)| {
        assert_eq!(of, flow(hand));
        which
    };
    reports.into_iter().map(which).collect()
}

/// Posts `count` SENDs of one packet and sends them. Returns their PSNs.
fn send(hand: &mut Hand, count: usize) -> Vec<u32> {
    let mem = hand.mem(8);
    for id in 0..count {
        hand.post(id as u64, SendOp::Send, &[mem.sge(0, 8)]);
    }
    hand.out_psns()
}

#[test]
fn an_acknowledgement_is_reported_up_to_its_place() {
    let mut hand = keeping();
    let psns = send(&mut hand, 3);
    let places = kept(&hand);
    assert!(places.len() == 3 && places.is_sorted_by(|a, b| a < b));
    assert_eq!(reports(&mut hand), []);
    hand.ack(psns[1]);
    assert!(hand.node.nic.wants_to_send(), "to report");
    assert_eq!(hand.out_psns(), [0; 0]);
    assert_eq!(reports(&mut hand), [Acknowledged::Before(places[2])]);
    assert_eq!(kept(&hand), places[2..]);
    // An acknowledgement of nothing new is not reported.
    hand.ack(psns[1]);
    assert!(!hand.node.nic.wants_to_send());
    hand.ack(psns[2]);
    assert_eq!(hand.out_psns(), [0; 0]);
    assert_eq!(reports(&mut hand).len(), 1);
    assert_eq!(kept(&hand), []);
}

#[test]
fn acknowledgements_that_come_together_are_one_report() {
    let mut hand = keeping();
    let psns = send(&mut hand, 3);
    let places = kept(&hand);
    hand.ack(psns[0]);
    hand.ack(psns[1]);
    assert_eq!(hand.out_psns(), [0; 0]);
    assert_eq!(reports(&mut hand), [Acknowledged::Before(places[2])]);
}

#[test]
fn a_retransmitted_packet_has_its_old_place_and_is_kept_twice() {
    let mut hand = keeping();
    let psns = send(&mut hand, 3);
    let places = kept(&hand);
    hand.ack(psns[0]);
    assert_eq!(hand.out_psns(), [0; 0]);
    hand.timeout();
    assert!(!hand.out_psns().is_empty(), "it is retransmitted");
    assert_eq!(reports(&mut hand), [Acknowledged::Before(places[1])]);
    let again = kept(&hand);
    assert!(again.len() > 2);
    assert!(again.iter().all(|at| places[1..].contains(at)), "{again:?}");
    hand.ack(psns[2]);
    assert_eq!(hand.out_psns(), [0; 0]);
    assert_eq!(reports(&mut hand).len(), 1);
    assert_eq!(kept(&hand), []);
}

#[test]
fn each_packet_of_a_long_message_has_its_place() {
    let mut hand = keeping();
    let mem = hand.mem(4096);
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 4096)]);
    let psns = hand.out_psns();
    let places = kept(&hand);
    assert_eq!((psns.len(), places.len()), (16, 16));
    let steps = places.windows(2).map(|two| two[1].0.get() - two[0].0.get());
    assert!(steps.into_iter().all(|step| step == 1), "{places:?}");
    hand.ack(psns[9]);
    hand.out();
    assert_eq!(reports(&mut hand), [Acknowledged::Before(places[10])]);
    assert_eq!(kept(&hand), places[10..]);
}

/// Acknowledgements and READ responses are never acknowledged, so they have no position.
#[test]
fn answers_have_no_place() {
    let mut hand = keeping();
    let mem = hand.mem(1024);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    assert_eq!(hand.out_one().opcode(), Opcode::RC_ACKNOWLEDGE);
    hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 1024), &[]);
    assert_eq!(hand.out().len(), 4);
    assert_eq!(hand.node.port.sent().len(), 0);
}

#[test]
fn the_end_of_a_connection_releases_everything() {
    let ends: [fn(&mut Hand); 4] = [
        |hand| hand.modify(QpState::Err),
        |hand| hand.modify(QpState::Reset),
        |hand| assert!(hand.node.nic.destroy_qp(hand.node.qpn)),
        |hand| {
            while hand.state() != QpState::Err {
                hand.timeout();
                hand.out();
            }
        },
    ];
    for (which, end) in ends.into_iter().enumerate() {
        let mut hand = keeping();
        let psns = send(&mut hand, 3);
        // This report is still due when the connection ends.
        hand.ack(psns[0]);
        end(&mut hand);
        let wants = hand.node.nic.wants_to_send();
        let has_ended = reports(&mut hand).last() == Some(&Acknowledged::All);
        assert!(wants || has_ended, "{which}");
        let (nic, port) = (&mut hand.node.nic, &mut hand.node.port);
        nic.transmit(hand.now, port);
        assert_eq!(hand.node.port.sent().len(), 0, "{which}");
        assert!(!hand.node.nic.wants_to_send(), "{which}");
        if !has_ended {
            assert_eq!(reports(&mut hand), [Acknowledged::All], "{which}");
        }
    }
}

/// The positions of a new connection may lie before those of the old one.
#[test]
fn a_new_connection_starts_anywhere() {
    let mut hand = keeping();
    send(&mut hand, 3);
    hand.modify(QpState::Reset);
    hand.setup.psn[0] = hand.setup.psn[0].saturating_sub(100);
    hand.advance_to(QpState::Rts);
    let psns = send(&mut hand, 1);
    assert_eq!(reports(&mut hand), [Acknowledged::All]);
    assert_eq!(kept(&hand).len(), 1);
    hand.ack(psns[0]);
    hand.out();
    assert_eq!(kept(&hand), []);
}

#[test]
fn a_port_that_keeps_nothing_hears_nothing() {
    let mut hand = keeping();
    hand.node.port.keeps = false;
    let psns = send(&mut hand, 2);
    hand.ack(psns[1]);
    assert!(!hand.node.nic.wants_to_send());
    hand.modify(QpState::Err);
    assert!(!hand.node.nic.wants_to_send());
    assert_eq!(reports(&mut hand), []);
}

/// The port itself checks that no packet is sent that was released.
#[test]
fn nothing_that_was_released_is_retransmitted_on_a_faulty_wire() {
    for seed in 0..20 {
        let mut pair = Pair::new(Setup {
            mtu: PathMtu::Mtu256,
            seed,
            timeout: 6,
            ..Setup::default()
        });
        for side in [A, B] {
            pair.nodes[side].port.keeps = true;
            pair.links[side].faults = Faults {
                drop: 300,
                duplicate: 300,
                reorder: 300,
                corrupt: 100,
            };
        }
        let len = 20_000;
        let (from, to) = (pair.mem(A, len), pair.mem(B, len));
        from.write(0, &pattern(seed, len));
        pair.post(A, 1, SendOp::Write(to.remote(0)), &[from.sge(0, len)]);
        pair.post(A, 2, SendOp::Read(to.remote(0)), &[from.sge(0, len)]);
        pair.run();
        pair.assert_sent(A, &[1, 2]);
        assert!(to.read(0, len) == pattern(seed, len), "seed {seed}");
        assert!(!pair.nodes[A].port.reports.is_empty(), "seed {seed}");
        for node in &pair.nodes {
            assert_eq!(node.port.sent().len(), 0, "seed {seed}");
        }
    }
}

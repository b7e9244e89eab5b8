//! Tests of the NIC with many QPs: turns, timers, and the lifetime of state.

use crate::sim::{A, B, Frame, Hand, Mem, Pair, Setup, pattern, to_state};
use roce_stack::{
    CreateQpError, PostError, QpKind, QpState, QpnRange, QueueLimits, SendFlags, SendOp,
    SendRequest, SrqInit, Stat, WcStatus,
};
use roce_wire::{ExtHeaders, Opcode, Packet, Qpn, RnrTimer, Syndrome};
use std::collections::HashMap;

/// Cancelled timers don't accumulate, whatever their remaining time: here each of 10,000 RNR NAKs
/// cancels an ACK timeout of 2.4 hours.
#[test]
fn overtaken_timers_do_not_pile_up() {
    let mut hand = Hand::new(Setup {
        timeout: 31,
        ..Setup::default()
    });
    hand.post(1, SendOp::Send, &[]);
    for _ in 0..10_000 {
        let psn = hand.out_one().psn();
        hand.answer(psn, Syndrome::RnrNak(RnrTimer::SHORTEST));
        hand.timeout();
    }
    let psn = hand.out_one().psn();
    hand.ack(psn);
    assert_eq!(hand.node.sent()[0].status, WcStatus::Success);
    let mut wake_ups = 0;
    while hand.node.nic.next_timeout().is_some() {
        hand.timeout();
        wake_ups += 1;
    }
    assert!(wake_ups < 100, "{wake_ups} timers");
    assert_eq!(hand.stat(Stat::Timeouts), 0);
}

/// A request that an application posts in answer to a message leaves before the message's
/// acknowledgement, which follows at once: a port can send both in one datagram.
#[test]
fn an_answer_goes_before_an_acknowledgement() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let (qpn, now) = (hand.node.qpn, hand.now);
    let node = &mut hand.node;
    node.nic.transmit_posted(now, &mut node.port, qpn);
    assert_eq!(node.port.out.len(), 2);
    let sent: Vec<Opcode> = hand.out().iter().map(|out| out.opcode()).collect();
    assert_eq!(sent, [Opcode::RC_SEND_ONLY, Opcode::RC_ACKNOWLEDGE]);
}

/// Each of them can leave with its own answer, whatever the order of the answers.
#[test]
fn an_answer_leaves_the_acknowledgements_of_other_qps_waiting() {
    const QPS: usize = 5;
    let (mut hand, qpns) = with_qps(QPS);
    let mem = hand.mem(8);
    let psn = hand.psn;
    for &qpn in &qpns {
        (hand.node.qpn, hand.psn) = (qpn, psn);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    }
    for index in [3, 0, 4, 1, 2] {
        assert_eq!(
            opcodes_after_post(&mut hand, qpns[index], &mem),
            [Opcode::RC_SEND_ONLY, Opcode::RC_ACKNOWLEDGE],
            "{index}"
        );
    }
    assert!(!hand.node.nic.wants_to_send());
}

#[test]
fn a_post_does_not_overtake_a_request_that_has_waited_longer() {
    let (mut hand, qpns) = with_qps(2);
    let mem = hand.mem(8);
    hand.node.qpn = qpns[0];
    hand.post(1, SendOp::Write(mem.remote(0)), &[mem.sge(0, 8)]);
    assert_eq!(
        opcodes_after_post(&mut hand, qpns[1], &mem),
        [Opcode::RC_WRITE_ONLY, Opcode::RC_SEND_ONLY]
    );
}

/// A NIC with QPs in RTS.
fn with_qps(count: usize) -> (Hand, Vec<Qpn>) {
    let mut hand = Hand::new(Setup::default());
    let mut qpns = vec![hand.node.qpn];
    while qpns.len() < count {
        hand.node.qpn = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
        hand.advance_to(QpState::Rts);
        qpns.push(hand.node.qpn);
    }
    (hand, qpns)
}

/// Posts a SEND to a QP, and returns the opcodes that leave because of it.
fn opcodes_after_post(hand: &mut Hand, qpn: Qpn, mem: &Mem) -> Vec<Opcode> {
    hand.node.qpn = qpn;
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let (now, node) = (hand.now, &mut hand.node);
    node.nic.transmit_posted(now, &mut node.port, qpn);
    let parse = |frame: &Frame| Packet::parse(&frame.bytes).map(|packet| packet.bth.opcode);
    let parsed = node.port.out.drain(..).map(|frame| parse(&frame));
    parsed.collect::<Result<_, _>>().expect("well-formed")
}

/// Otherwise a driver waits for a call that sends it.
#[test]
fn nothing_is_left_to_send_after_a_post_was_sent() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let (qpn, now) = (hand.node.qpn, hand.now);
    for _ in 0..2 {
        hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
        assert!(hand.node.nic.wants_to_send());
        let node = &mut hand.node;
        node.nic.transmit_posted(now, &mut node.port, qpn);
        assert!(!node.nic.wants_to_send());
    }
    assert_eq!(hand.out().len(), 2);
}

/// After the packet that was marked as the last for the port, a QP that sends at once has nothing
/// left to send.
#[test]
fn a_port_is_told_of_the_last_packet_of_all() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8192);
    let ends = |hand: &mut Hand| {
        let packets = hand.out().len();
        let ends = std::mem::take(&mut hand.node.port.ends);
        (packets, ends)
    };
    let mut sent = 0;
    // One, two at once, and one of several packets.
    for lens in [&[8][..], &[8, 8], &[4000], &[4000, 0]] {
        for &len in lens {
            hand.post(1, SendOp::Send, &[mem.sge(0, len)]);
        }
        let (packets, ends) = ends(&mut hand);
        sent += packets;
        assert_eq!(ends, [sent], "{lens:?}");
    }
    // All of them are retransmitted.
    hand.timeout();
    assert_eq!(ends(&mut hand), (sent, vec![2 * sent]));
    // Nor is it the last if an acknowledgement follows.
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    assert_eq!(ends(&mut hand), (2, vec![]));
}

/// A QP in the slot of a destroyed one is not mistaken for it.
#[test]
fn the_place_of_a_qp_is_another_ones_later() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let (old, now) = (hand.node.qpn, hand.now);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let wr = |sges| SendRequest::new(2, SendOp::Send, sges).with_flags(SendFlags::empty());
    let nic = &mut hand.node.nic;
    assert!(nic.destroy_qp(old));
    let gone = nic.post_send(now, old, &wr(&[]));
    assert_eq!(gone, Err(PostError::UnknownQp(old)));
    let new = hand.node.another_qp(QpKind::Rc, hand.setup.queue);
    let nic = &mut hand.node.nic;
    let gone = nic.post_send(now, old, &wr(&[]));
    assert_eq!(gone, Err(PostError::UnknownQp(old)));
    assert_eq!(nic.query_qp(old).map(|(state, _)| state), None);
    let reset = nic.query_qp(new).map(|(state, _)| state);
    assert_eq!(reset, Some(QpState::Reset));
}

/// An acknowledgement may wait for the application's answer; a NAK, a READ's response and posted
/// requests may not.
#[test]
fn only_acknowledgements_may_wait() {
    let waits = |act: fn(&mut Hand)| {
        let mut hand = Hand::new(Setup::default());
        act(&mut hand);
        assert!(hand.node.nic.wants_to_send());
        hand.node.nic.wants_only_to_acknowledge()
    };
    assert!(
        !Hand::new(Setup::default())
            .node
            .nic
            .wants_only_to_acknowledge()
    );
    assert!(waits(|hand| {
        let mem = hand.mem(64);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    }));
    assert!(!waits(|hand| {
        let (mem, psn) = (hand.mem(64), hand.psn + 1);
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    }));
    assert!(!waits(|hand| {
        let mem = hand.mem(64);
        hand.request(Opcode::RC_READ_REQUEST, mem.reth(0, 8), &[]);
    }));
    assert!(!waits(|hand| {
        let mem = hand.mem(64);
        hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
        hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    }));
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    hand.out();
    assert!(!hand.node.nic.wants_only_to_acknowledge(), "it has left");
}

/// Many QPs between the same two NICs, all at once over a bad wire: each gets its own data.
// shows: 11.4.2.1-shared
#[test]
fn many_qps_share_a_nic() {
    const QPS: usize = 20;
    const LEN: usize = 10_000;
    let mut pair = Pair::new(Setup::default());
    for link in &mut pair.links {
        link.faults.drop = 500;
        link.faults.reorder = 100;
    }
    let mem = [pair.mem(A, 2 * QPS * LEN), pair.mem(B, 2 * QPS * LEN)];
    for side in [A, B] {
        mem[side].write(0, &pattern(side as u64, QPS * LEN));
    }
    let qpns: Vec<[Qpn; 2]> = (0..QPS)
        .map(|_| {
            for side in [A, B] {
                another_qp(&mut pair, side);
            }
            for side in [A, B] {
                pair.connect(side);
            }
            [pair.nodes[A].qpn, pair.nodes[B].qpn]
        })
        .collect();
    for (n, qpns) in qpns.iter().enumerate() {
        for side in [A, B] {
            pair.nodes[side].qpn = qpns[side];
            let op = if n % 2 == 0 {
                SendOp::Write(mem[1 - side].remote((QPS + n) * LEN))
            } else {
                SendOp::Read(mem[1 - side].remote(n * LEN))
            };
            let local = if n % 2 == 0 { n } else { QPS + n };
            pair.post(side, n as u64, op, &[mem[side].sge(local * LEN, LEN)]);
        }
    }
    pair.run();
    for side in [A, B] {
        let mut done: Vec<_> = pair.nodes[side].sent();
        assert!(done.iter().all(|c| c.status == WcStatus::Success));
        done.sort_by_key(|c| c.wr_id);
        assert_eq!(done.len(), QPS);
        for (completion, qpns) in done.iter().zip(&qpns) {
            assert_eq!(completion.qpn, qpns[side]);
        }
        assert!(mem[side].read(QPS * LEN, QPS * LEN) == pattern(1 - side as u64, QPS * LEN));
    }
}

/// QPs to one peer keep no more in flight together than a single one may. A QP that finds no room
/// has its turn when another one makes room, be it by being destroyed.
#[test]
fn qps_to_one_peer_share_a_window() {
    let mut pair = Pair::new(Setup::default());
    let window = pair.setup.window_bytes;
    let mem = [pair.mem(A, 4 * window), pair.mem(B, 4 * window)];
    let first = pair.nodes[A].qpn;
    let op = SendOp::Write(mem[B].remote(0));
    pair.post(A, 1, op, &[mem[A].sge(0, 4 * window)]);
    let sent = |pair: &mut Pair| {
        let (now, node) = (pair.now, &mut pair.nodes[A]);
        while node.nic.wants_to_send() {
            node.nic.transmit(now, &mut node.port);
        }
        let payload = node.nic.counters().stat(Stat::TxBytes);
        node.port.out.clear();
        payload
    };
    assert_eq!(sent(&mut pair), window as u64);
    for side in [A, B] {
        another_qp(&mut pair, side);
    }
    for side in [A, B] {
        pair.connect(side);
    }
    pair.post(A, 2, op, &[mem[A].sge(0, 1000)]);
    assert_eq!(sent(&mut pair), window as u64, "no room");
    assert!(pair.nodes[A].nic.destroy_qp(first));
    assert_eq!(sent(&mut pair), window as u64 + 1000);
}

/// RESET, and destroying a QP, drop the QP's completions that have not been polled; those of others
/// in the same CQs stay.
// shows: 10.3.1-reset-completions
#[test]
fn a_reset_takes_untaken_completions_along() {
    for destroyed in [false, true] {
        let mut pair = Pair::new(Setup::default());
        let from = pair.mem(A, 64);
        let to = pair.mem(B, 64);
        let first = [A, B].map(|side| pair.nodes[side].qpn);
        let exchange = |pair: &mut Pair, id| {
            pair.post_recv(B, id, &[to.sge(0, 8)]);
            pair.post(A, id, SendOp::Send, &[from.sge(0, 8)]);
            pair.run();
        };
        exchange(&mut pair, 1);
        for side in [A, B] {
            another_qp(&mut pair, side);
        }
        for side in [A, B] {
            pair.connect(side);
        }
        exchange(&mut pair, 2);
        for (side, qpn) in [A, B].into_iter().zip(first) {
            let now = pair.now;
            let nic = &mut pair.nodes[side].nic;
            match destroyed {
                true => assert!(nic.destroy_qp(qpn)),
                false => nic
                    .modify_qp(now, qpn, &to_state(QpState::Reset))
                    .expect("from any state"),
            }
        }
        pair.assert_sent(A, &[2]);
        pair.assert_received(B, &[2]);
    }
}

/// One seed and one sequence of calls give the same run, packet for packet.
#[test]
fn a_seed_reproduces_a_run() {
    let run = |seed| {
        let mut pair = Pair::new(Setup {
            seed,
            ..Setup::default()
        });
        for link in &mut pair.links {
            link.faults.drop = 1000;
            link.faults.reorder = 1000;
        }
        let mem = [pair.mem(A, 100_000), pair.mem(B, 100_000)];
        for side in [A, B] {
            let op = SendOp::Read(mem[1 - side].remote(0));
            pair.post(side, 1, op, &[mem[side].sge(0, 100_000)]);
        }
        pair.run();
        // Everything except the addresses of this process's memory and the fields that cover them.
        let shape = |side: usize| {
            let log = pair.links[side].log.iter();
            let packets = log.map(|sent| (sent.at, sent.bth, sent.len, sent.ext.aeth));
            packets.collect::<Vec<_>>()
        };
        (pair.now, shape(A), shape(B))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

fn another_qp(pair: &mut Pair, side: usize) {
    let queue = pair.setup.queue;
    let node = &mut pair.nodes[side];
    node.qpn = node.another_qp(QpKind::Rc, queue);
}

/// The usage includes posted receives as well as sends, until they complete.
#[test]
fn usage_counts_requests_that_have_not_completed() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(64);
    for wr_id in 0..3 {
        hand.post_recv(wr_id, &[mem.sge(0, 8)]);
    }
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    hand.post(2, SendOp::Send, &[mem.sge(0, 8)]);
    let usage = hand.node.nic.usage();
    assert_eq!((usage.sends, usage.receives), (2, 3));
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.out();
    hand.ack(hand.setup.psn[0]);
    let usage = hand.node.nic.usage();
    assert_eq!((usage.sends, usage.receives), (1, 2));
}

/// If all QPNs of a range are in use, creating a QP fails and leaks nothing.
#[test]
fn when_all_numbers_are_taken_there_is_no_further_qp() {
    let mut hand = Hand::new(Setup::default());
    let nothing = QueueLimits {
        depth: 1,
        max_sge: 1,
    };
    let node = &mut hand.node;
    let init = node.init(QpKind::Rc, nothing);
    let srq = node.nic.create_srq(&SrqInit {
        pd: node.pd,
        size: nothing,
    });
    let srq = srq.expect("an SRQ");
    let domain = node.nic.create_xrcd();
    node.nic
        .draw_qpns_from(QpnRange::new(0).expect("there is one"));
    let max = QpnRange::MAX_QPS;
    let made = std::iter::from_fn(|| node.nic.create_qp(init.clone()).ok());
    assert_eq!(made.count(), max - 1, "there was one before");
    let used_up = CreateQpError::QpnsUsedUp { max };
    assert!(used_up.to_string().contains("130048"));
    assert_eq!(node.nic.create_qp(init.clone()), Err(used_up));
    assert_eq!(node.nic.create_qp_with_srq(init.clone(), srq), Err(used_up));
    assert_eq!(node.nic.query_srq(srq).map(|status| status.qps), Some(0));
    assert_eq!(node.nic.create_xrc_target(domain), Err(used_up));
    assert_eq!(node.nic.destroy_xrcd(domain), Ok(()));
    assert!(node.nic.destroy_qp(node.qpn));
    node.qpn = node.nic.create_qp(init).expect("one is free again");
}

/// A number that was freed is not drawn again soon, because peers remember it for a while: in time
/// wait, or if this end did not tell them that it has gone.
#[test]
fn a_freed_number_is_not_drawn_again_soon() {
    const ROUNDS: usize = 100_000;
    const SOON: usize = 65_000;
    let mut hand = Hand::new(Setup::default());
    let size = QueueLimits {
        depth: 1,
        max_sge: 1,
    };
    let node = &mut hand.node;
    let init = node.init(QpKind::Rc, size);
    let srq_init = SrqInit { pd: node.pd, size };
    node.nic
        .draw_qpns_from(QpnRange::new(0).expect("there is one"));
    // When each number was freed.
    let mut freed = [HashMap::new(), HashMap::new()];
    for round in 0..ROUNDS {
        let qpn = node.nic.create_qp(init.clone()).expect("one is free");
        assert!(node.nic.destroy_qp(qpn));
        let srq = node.nic.create_srq(&srq_init).expect("one is free");
        assert_eq!(node.nic.destroy_srq(srq), Ok(()));
        for (freed, number) in freed.iter_mut().zip([qpn.get(), srq.get()]) {
            let before = freed.insert(number, round);
            let is_soon = before.is_some_and(|before| round - before <= SOON);
            assert!(!is_soon, "{number:#x}, in rounds {before:?} and {round}");
        }
    }
}

//! The flight recorder: the last events of each QP.

use crate::congestion::reaction::{cnp, fixed};
use crate::sim::{A, B, Fate, Hand, Pair, QKEY, Setup, to_state};
use roce_observe::InWords;
use roce_stack::{
    DropReason, Duration, Instant, PostError, QpEvent, QpKind, QpState, Recorded, SendOp,
    SendRequest, Verdict,
};
use roce_wire::{ExtHeaders, NakCode, Opcode, PKey, PathMtu, Psn, Syndrome};

fn recorded() -> Setup {
    Setup {
        records: true,
        ..Setup::default()
    }
}

/// The events of one end, as people read them.
fn events(pair: &Pair, side: usize) -> Vec<String> {
    texts(&pair.nodes[side].nic.recorded(pair.nodes[side].qpn))
}

/// The events at the end that is tested, after those that connected it.
fn events_by_hand(hand: &Hand) -> Vec<String> {
    let mut events = texts(&hand.node.nic.recorded(hand.node.qpn));
    events.drain(..3);
    events
}

fn texts(events: &[Recorded]) -> Vec<String> {
    events
        .iter()
        .map(|recorded| InWords(&recorded.event).to_string())
        .collect()
}

#[test]
fn the_states_a_request_and_its_acknowledgement() {
    let mut pair = Pair::new(recorded());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    pair.modify(A, &to_state(QpState::Err));
    let states = [
        "state RESET to INIT",
        "state INIT to RTR",
        "state RTR to RTS",
    ];
    let own = [
        "posted rdma_write of 8 bytes",
        "sent RC RDMA WRITE Only, PSN 0x000010, 8 bytes",
        "received RC Acknowledge, PSN 0x000010, ACK",
        "state RTS to ERR",
    ];
    assert_eq!(events(&pair, A), [&states[..], &own].concat());
    let peers = [
        "received RC RDMA WRITE Only, PSN 0x000010, 8 bytes",
        "sent RC Acknowledge, PSN 0x000010, ACK",
    ];
    assert_eq!(events(&pair, B), [&states[..], &peers].concat());
}

#[test]
fn nothing_is_recorded_unless_it_is_asked_for() {
    let mut pair = Pair::new(Setup::default());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert_eq!(events(&pair, A), [""; 0]);
    assert_eq!(events(&pair, B), [""; 0]);
}

#[test]
fn events_have_the_time_at_which_they_happened() {
    let mut hand = Hand::new(recorded());
    let connected = hand.now;
    hand.now = connected + Duration::from_micros(7);
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let times: Vec<Instant> = hand
        .node
        .nic
        .recorded(hand.node.qpn)
        .iter()
        .map(|e| e.at)
        .collect();
    assert_eq!(times, [connected, connected, connected, hand.now]);
}

#[test]
fn a_lost_packet_its_timeout_and_its_retransmission() {
    let mut pair = Pair::new(recorded());
    let mut lost = false;
    pair.links[A].script(move |_| match std::mem::replace(&mut lost, true) {
        false => Fate::Drop,
        true => Fate::Pass,
    });
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Write(remote.remote(0)), &[local.sge(0, 8)]);
    pair.run();
    assert_eq!(
        events(&pair, A)[3..],
        [
            "posted rdma_write of 8 bytes",
            "sent RC RDMA WRITE Only, PSN 0x000010, 8 bytes",
            "no response to PSN 0x000010 within the local ACK timeout, 7 retries left",
            "retransmitted RC RDMA WRITE Only, PSN 0x000010, 8 bytes",
            "received RC Acknowledge, PSN 0x000010, ACK",
        ]
    );
}

#[test]
fn an_rnr_nak_and_its_wait() {
    let mut pair = Pair::new(recorded());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Send, &[local.sge(0, 8)]);
    pair.run_until(|pair| pair.links[B].log.len() == 1);
    pair.post_recv(B, 7, &[remote.sge(0, 64)]);
    pair.run();
    pair.assert_sent(A, &[1]);
    assert_eq!(
        events(&pair, A)[4..],
        [
            "sent RC SEND Only, PSN 0x000010, 8 bytes",
            "received RC Acknowledge, PSN 0x000010, RNR NAK, wait 10us",
            "the RNR timer has ended",
            "retransmitted RC SEND Only, PSN 0x000010, 8 bytes",
            "received RC Acknowledge, PSN 0x000010, ACK",
        ]
    );
    assert_eq!(
        events(&pair, B)[3..],
        [
            "received RC SEND Only, PSN 0x000010, 8 bytes: not executed",
            "sent RC Acknowledge, PSN 0x000010, RNR NAK, wait 10us",
            "posted a receive",
            "received RC SEND Only, PSN 0x000010, 8 bytes",
            "sent RC Acknowledge, PSN 0x000010, ACK",
        ]
    );
}

#[test]
fn a_nak_is_recorded_at_both_ends() {
    let mut pair = Pair::new(recorded());
    let (local, remote) = (pair.mem(A, 64), pair.mem(B, 64));
    pair.post(A, 1, SendOp::Write(remote.remote(60)), &[local.sge(0, 8)]);
    pair.run();
    assert_eq!(
        events(&pair, A)[5..],
        [
            "received RC Acknowledge, PSN 0x000010, NAK, remote access error",
            "state RTS to ERR",
        ]
    );
    assert_eq!(
        events(&pair, B)[3..],
        [
            "received RC RDMA WRITE Only, PSN 0x000010, 8 bytes: not executed",
            "state RTS to ERR",
            "sent RC Acknowledge, PSN 0x000010, NAK, remote access error",
        ]
    );
}

#[test]
fn packets_out_of_order_and_duplicates() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(64);
    let first = hand.psn;
    for psn in [first + 1, first, first] {
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
        hand.out();
    }
    assert_eq!(
        events_by_hand(&hand),
        [
            "received RC RDMA WRITE Only, PSN 0x800001, 8 bytes: out of order, kept",
            "sent RC Acknowledge, PSN 0x800000, NAK, PSN sequence error",
            "received RC RDMA WRITE Only, PSN 0x800000, 8 bytes",
            "sent RC Acknowledge, PSN 0x800001, ACK",
            "received RC RDMA WRITE Only, PSN 0x800000, 8 bytes: duplicate",
            "sent RC Acknowledge, PSN 0x800001, ACK",
        ]
    );
}

#[test]
fn kept_packets_that_are_dropped_are_one_event() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(64);
    let first = hand.psn;
    for psn in [first + 1, first + 2] {
        let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    }
    hand.modify(QpState::Err);
    assert_eq!(
        events_by_hand(&hand)[2..],
        [
            "state RTS to ERR",
            "dropped 2 kept packets (out_of_sequence)"
        ]
    );
}

/// The reason is that of the counter, whichever code drops the packet.
#[test]
fn dropped_packets_have_their_reason() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(64);
    let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, hand.psn);
    bth.pkey = PKey(0x8123);
    hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    hand.ack(0x5555);
    let uc = hand.bth(Opcode::UC_WRITE_ONLY, hand.psn);
    hand.deliver(uc, mem.reth(0, 8), &[1; 8]);
    let reasons = [
        DropReason::WrongPKey,
        DropReason::GhostAck,
        DropReason::WrongTransport,
    ];
    let events = hand.node.nic.recorded(hand.node.qpn);
    let verdicts = events[3..].iter().map(|recorded| match recorded.event {
        QpEvent::Received { verdict, .. } => verdict,
        other => panic!("{other:?}"),
    });
    assert_eq!(verdicts.collect::<Vec<_>>(), reasons.map(Verdict::Dropped));
    for reason in reasons {
        assert_eq!(hand.drops(reason), 1, "{reason:?}");
    }
    let text = InWords(&events[3].event).to_string();
    assert_eq!(
        text,
        "received RC RDMA WRITE Only, PSN 0x800000, 8 bytes: dropped (wrong_pkey)"
    );
}

/// The packets of UC and UD that are dropped have reasons, too.
#[test]
fn unreliable_services_record_what_they_drop() {
    for (kind, opcode) in [
        (QpKind::Uc, Opcode::UC_SEND_ONLY),
        (QpKind::Ud, Opcode::UD_SEND_ONLY),
    ] {
        let mut hand = Hand::new(Setup { kind, ..recorded() });
        let ext = match kind {
            QpKind::Ud => crate::ud::deth(QKEY),
            _ => ExtHeaders::NONE,
        };
        hand.deliver(hand.bth(opcode, hand.psn), ext, &[1; 8]);
        let events = hand.node.nic.recorded(hand.node.qpn);
        let newest = events.last().expect("an event").event;
        let expected = Verdict::Dropped(DropReason::NoReceive);
        assert!(
            matches!(newest, QpEvent::Received { verdict, .. } if verdict == expected),
            "{newest:?}"
        );
    }
}

#[test]
fn after_a_failure_the_packets_that_are_dropped_do_not_replace_what_led_to_it() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    hand.nak(psn, NakCode::RemoteAccessError);
    let before = events_by_hand(&hand);
    assert_eq!(before.last().map(String::as_str), Some("state RTS to ERR"));
    for _ in 0..100 {
        hand.ack(psn);
    }
    assert_eq!(hand.drops(DropReason::WrongState), 100);
    assert_eq!(events_by_hand(&hand), before);
}

/// The ring has 32 places; the oldest events make room.
#[test]
fn the_last_32_events_are_kept_oldest_first() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(64);
    let first = hand.psn;
    for n in 0..100 {
        let mut bth = hand.bth(Opcode::RC_WRITE_ONLY, first + n);
        bth.ack_req = false;
        hand.deliver(bth, mem.reth(0, 8), &[1; 8]);
    }
    let events = hand.node.nic.recorded(hand.node.qpn);
    let psns = events.iter().map(|recorded| match recorded.event {
        QpEvent::Received { psn, .. } => psn,
        other => panic!("{other:?}"),
    });
    let last = (68..100).map(|n| Psn::new(first + n));
    assert_eq!(psns.collect::<Vec<_>>(), last.collect::<Vec<_>>());
}

/// The middle of a long message is one event, at both ends, so that it does not fill the ring.
#[test]
fn the_middle_of_a_message_is_one_event() {
    for reads in [false, true] {
        let mut pair = Pair::new(Setup {
            mtu: PathMtu::Mtu256,
            ..recorded()
        });
        let (local, remote) = (pair.mem(A, 16384), pair.mem(B, 16384));
        let op = match reads {
            false => SendOp::Write(remote.remote(0)),
            true => SendOp::Read(remote.remote(0)),
        };
        pair.post(A, 1, op, &[local.sge(0, 40 * 256)]);
        pair.run();
        let (name, from, to) = match reads {
            false => ("RC RDMA WRITE Middle", A, B),
            true => ("RC RDMA READ Response Middle", B, A),
        };
        let run = format!("38 {name}, PSN 0x000011 to 0x000036");
        let count = |side, text: &str| {
            let events = events(&pair, side);
            events.iter().filter(|event| *event == text).count()
        };
        let all = (events(&pair, from), events(&pair, to));
        assert_eq!(count(from, &format!("sent {run}")), 1, "{all:#?}");
        assert_eq!(count(to, &format!("received {run}")), 1, "{all:#?}");
    }
}

/// One long train would fill the ring, too.
#[test]
fn the_packets_of_a_train_are_one_event() {
    let mut pair = Pair::new(Setup {
        mtu: PathMtu::Mtu256,
        ..recorded()
    });
    let (local, remote) = (pair.mem(A, 40 * 256), pair.mem(B, 40 * 256));
    for wr_id in 1..=2 {
        let op = SendOp::Write(remote.remote(0));
        pair.post(A, wr_id, op, &[local.sge(0, 40 * 256 - 1)]);
        pair.run();
    }
    for side in [A, B] {
        let all = events(&pair, side);
        let of_train = |event: &&String| event.contains("RC RDMA WRITE Only, PSN");
        let of_train = all.iter().filter(of_train).count();
        assert!(
            (1..=2).contains(&of_train),
            "a run, and perhaps the last one: {all:#?}"
        );
    }
}

/// A packet that is denied is not part of the run before it.
#[test]
fn a_packet_of_the_middle_that_is_not_accepted_is_an_event_of_its_own() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(8192);
    hand.request(Opcode::RC_WRITE_FIRST, mem.reth(0, 8192), &[1; 1024]);
    for _ in 0..2 {
        hand.request(Opcode::RC_WRITE_MIDDLE, ExtHeaders::NONE, &[1; 1024]);
    }
    hand.request(Opcode::RC_WRITE_MIDDLE, ExtHeaders::NONE, &[1; 1000]);
    assert_eq!(
        events_by_hand(&hand),
        [
            "received RC RDMA WRITE First, PSN 0x800000, 1024 bytes",
            "received 2 RC RDMA WRITE Middle, PSN 0x800001 to 0x800002",
            "received RC RDMA WRITE Middle, PSN 0x800003, 1000 bytes: not executed",
            "state RTS to ERR",
        ]
    );
}

/// A packet that was kept is executed later, and is not part of a run.
#[test]
fn a_run_has_no_gaps() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(8192);
    let first = hand.psn;
    hand.request(Opcode::RC_WRITE_FIRST, mem.reth(0, 8192), &[1; 1024]);
    for index in [2, 1, 3] {
        let bth = hand.bth(Opcode::RC_WRITE_MIDDLE, first + index);
        hand.deliver(bth, ExtHeaders::NONE, &[1; 1024]);
    }
    assert_eq!(
        events_by_hand(&hand)[1..],
        [
            "received RC RDMA WRITE Middle, PSN 0x800002, 1024 bytes: out of order, kept",
            "received RC RDMA WRITE Middle, PSN 0x800001, 1024 bytes",
            "received RC RDMA WRITE Middle, PSN 0x800003, 1024 bytes",
        ]
    );
}

#[test]
fn receives_posted_one_after_the_other_are_one_event() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(64);
    for wr_id in 0..40 {
        hand.post_recv(wr_id, &[mem.sge(0, 64)]);
    }
    assert_eq!(events_by_hand(&hand), ["posted 40 receives"]);
}

#[test]
fn calls_that_are_refused() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(8);
    let read = SendRequest::new(1, SendOp::Read(mem.remote(0)), mem.sge(0, 8)).inline(&[1; 8]);
    for _ in 0..3 {
        let refused = hand.node.nic.post_send(hand.now, hand.node.qpn, &read);
        assert!(
            matches!(refused, Err(PostError::NotInline(_))),
            "{refused:?}"
        );
    }
    let init = to_state(QpState::Init);
    let refused = hand.node.nic.modify_qp(hand.now, hand.node.qpn, &init);
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(
        events_by_hand(&hand),
        [
            "refused 3 times to post rdma_read",
            "refused to modify state RTS to INIT",
        ]
    );
}

#[test]
fn a_cnp_and_the_rate_that_it_sets() {
    let mut hand = Hand::new(recorded());
    hand.node.nic.set_congestion_control(fixed(1000));
    cnp(&mut hand);
    assert_eq!(
        events_by_hand(&hand),
        [
            "received CNP, PSN 0x000000, 0 bytes",
            "the CNP has reduced the rate to 1000.0 Mb/s",
        ]
    );
}

#[test]
fn an_acknowledgement_is_recorded_with_its_syndrome() {
    let mut hand = Hand::new(recorded());
    let mem = hand.mem(8);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    let psn = hand.out_one().psn();
    let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
    hand.answer(psn, syndrome);
    let events = hand.node.nic.recorded(hand.node.qpn);
    let received = events.iter().find_map(|recorded| match recorded.event {
        QpEvent::Received { syndrome, .. } => Some(syndrome),
        _ => None,
    });
    assert_eq!(received, Some(Some(syndrome)));
}

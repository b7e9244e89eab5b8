//! The middle of long messages, which is looked up once if the payload is in one element, and
//! packet by packet if not: to the peer that is the same.

use crate::sim::{A, B, Hand, Ip, Mem, Out, Pair, Setup};
use roce_stack::{DropReason, QpState, RemoteAddr, SendOp, Sge};
use roce_wire::PathMtu;

const PACKETS: usize = 40;
const LEN: usize = PACKETS * 256 - 100;

/// Elements of these lengths, one after the other.
fn elements(mem: &Mem, lens: &[usize]) -> Vec<Sge> {
    let mut at = 0;
    let element = |&len| {
        at += len;
        mem.sge(at - len, len)
    };
    lens.iter().map(element).collect()
}

/// The packets of a message in elements of these lengths, through a port that is full after each
/// `room` packets. The peer acknowledges packets that ask for it.
fn sent(op: SendOp, lens: &[usize], room: usize) -> Vec<Out> {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        window_bytes: 16 * 256,
        psn: [0xff_fff0, 7],
        ..Setup::default()
    });
    let mem = hand.mem(LEN);
    let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7 / 3) as u8).collect();
    mem.write(0, &bytes);
    hand.post(1, op, &elements(&mem, lens));
    hand.node.port.max_queued = room;
    let mut all = Vec::new();
    loop {
        let out = hand.out();
        if out.is_empty() {
            break;
        }
        if let Some(asks) = out.iter().rfind(|out| out.bth.ack_req) {
            hand.ack(asks.psn());
        }
        all.extend(out);
    }
    let payloads: Vec<u8> = all.iter().flat_map(|out| out.payload.clone()).collect();
    assert!(payloads == bytes, "the message as it is in memory");
    all
}

// shows: 9.7.3-segments, 9.7.3.1-psn-each
#[test]
fn the_middle_of_a_message_is_as_packet_by_packet() {
    let write = SendOp::Write(RemoteAddr {
        addr: 0x1000,
        rkey: 5,
    });
    for op in [write, SendOp::Send] {
        for room in (1..=PACKETS).chain([usize::MAX]) {
            let at_once = sent(op, &[LEN], room);
            let one_by_one = sent(op, &[1001, LEN - 1001], room);
            assert_eq!(at_once.len(), PACKETS);
            assert_eq!(at_once, one_by_one, "room for {room}");
        }
    }
}

/// Memory that ends in the middle of a message: the bytes before the end are sent.
#[test]
fn memory_that_ends_in_mid_message_is_found_at_the_same_packet() {
    for splits in [&[LEN + 300][..], &[1001, LEN + 300 - 1001]] {
        let mut hand = Hand::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let mem = hand.mem(LEN);
        hand.post(1, SendOp::Send, &elements(&mem, splits));
        let out = hand.out();
        assert_eq!(out.len(), PACKETS - 1, "{splits:?}");
        assert_eq!(hand.state(), QpState::Err, "{splits:?}");
    }
}

/// The port numbers the packets of a run, and each packet's ICRC covers its own number.
#[test]
fn each_packet_of_a_run_is_sealed_for_its_identification() {
    for ip in Ip::ALL {
        let mut pair = Pair::new(Setup {
            ip,
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let (local, remote) = (pair.mem(A, LEN), pair.mem(B, LEN));
        let all = [local.sge(0, LEN)];
        pair.post(A, 1, SendOp::Write(remote.remote(0)), &all);
        pair.post(A, 2, SendOp::Read(remote.remote(0)), &all);
        pair.run();
        pair.assert_sent(A, &[1, 2]);
        for side in [A, B] {
            let dropped = pair.nodes[side].nic.counters().drops(DropReason::BadIcrc);
            assert_eq!(dropped, 0, "{ip:?}");
        }
    }
}

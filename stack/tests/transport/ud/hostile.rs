//! A peer that sends any opcode of any service, with right, nearly right and random fields, to a
//! working UD QP that is in a multicast group.

use super::{destination, deth, setup};
use crate::sim::hand::{frame, seal};
use crate::sim::{Hand, Ip, QKEY, Setup};
use roce_stack::{QpState, RecvRequest, SendRequest, WcStatus};
use roce_wire::{ImmDt, Opcode, QKey, Qpn, Transport};
use testkit::{Dice, each_seed};

const SEEDS: u64 = 100;

/// Nothing panics, nothing is answered, only receives are written, and every receive completes
/// once, in order.
#[test]
fn hostile_packets_do_no_harm() {
    each_seed(SEEDS, attack);
}

fn attack(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut hand = Hand::new(Setup {
        seed,
        ip: dice.pick(&Ip::ROCE_V2),
        ..setup()
    });
    let inbox = hand.mem(2048);
    let secret = hand.mem(2048);
    secret.write(0, &[0xd7; 2048]);
    let opcodes: Vec<Opcode> = (0..=u8::MAX).filter_map(Opcode::from_byte).collect();
    let group = match hand.setup.ip {
        Ip::V6 => "ff12::1".parse().expect("valid"),
        Ip::V4 | Ip::V4Hidden | Ip::Grh => "239.0.0.1".parse().expect("valid"),
    };
    let qpn = hand.node.qpn;
    hand.node
        .nic
        .attach_multicast(qpn, group)
        .expect("attached");
    let there = destination(&hand.node, hand.setup.ip.address(2), qpn, QKEY);
    let (mut next, mut due) = (0, 0);
    for _ in 0..400 {
        if dice.one_in(2) {
            // A receive that is too small for all would stay at the front for ever.
            let len = 60 + dice.below(960);
            let wr = RecvRequest {
                wr_id: next,
                sges: &[inbox.sge(1024, len)],
            };
            next += u64::from(hand.node.nic.post_recv(hand.now, qpn, &wr).is_ok());
        }
        if dice.one_in(4) {
            hand.post_request(&SendRequest::send(inbox.sge(0, 100)).to(there));
        }
        let opcode = match dice.below(3) {
            0 => dice.pick(&opcodes),
            1 => Opcode::UD_SEND_ONLY,
            _ => Opcode::UD_SEND_ONLY_WITH_IMMEDIATE,
        };
        let qkey = if dice.one_in(4) {
            QKey(dice.wild32())
        } else {
            QKEY
        };
        let mut ext = deth(qkey);
        ext.imm = Some(ImmDt(1));
        ext.reth = secret.reth(0, 64).reth;
        let mut bth = hand.bth(opcode, dice.wild32());
        let mut meta = hand.meta();
        if dice.one_in(4) {
            meta.dst = group;
        }
        if dice.one_in(4) {
            bth.dest_qpn = Qpn::MULTICAST;
        }
        let len = if dice.one_in(2) {
            dice.below(20)
        } else {
            dice.below(1100)
        };
        let mut packet = frame(meta, bth, ext, &vec![0x11; len]);
        if dice.one_in(4) {
            let at = dice.below(packet.bytes.len());
            packet.bytes[at] = dice.byte();
            seal(&meta, &mut packet.bytes);
        }
        if dice.one_in(10) {
            packet.bytes.truncate(dice.below(packet.bytes.len()));
        }
        hand.node.nic.receive(hand.now, &meta, &packet.bytes);
        for out in hand.out() {
            assert_eq!(out.opcode().transport(), Transport::Ud);
            assert_eq!(out.payload.len(), 100, "only what was posted");
        }
        for done in hand.node.received() {
            assert_eq!((done.wr_id, done.status), (due, WcStatus::Success));
            due += 1;
        }
        hand.node.sent();
    }
    assert_eq!(hand.state(), QpState::Rts);
    assert!(due > 10, "some are taken");
    assert_eq!(secret.read(0, 2048), [0xd7; 2048]);
    assert_eq!(inbox.read(0, 1024), [0; 1024]);
}

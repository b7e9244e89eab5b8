//! A peer that sends any opcode of any service, with right, nearly right and random fields, to a
//! working UC QP.

use super::setup;
use crate::sim::hand::seal;
use crate::sim::{Hand, Ip, Setup};
use roce_stack::{Access, DropReason, QpState, SendOp, WcStatus};
use roce_wire::{ExtHeaders, ImmDt, Opcode, PathMtu, Transport};
use testkit::{Dice, each_seed};

const SEEDS: u64 = 100;

/// Nothing panics, no answer leaves, memory that no key allows access to is unchanged, and every
/// packet of another service is counted as such.
// trap: hostile-packets
#[test]
fn hostile_packets_do_no_harm() {
    each_seed(SEEDS, attack);
}

fn attack(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut hand = Hand::new(Setup {
        seed,
        ip: dice.pick(&Ip::ROCE_V2),
        mtu: PathMtu::Mtu256,
        ..setup()
    });
    let open = hand.mem(2048);
    let secret = hand.node.mem_with(2048, Access::LOCAL_WRITE);
    secret.write(0, &[0xd7; 2048]);
    let opcodes: Vec<Opcode> = (0..=u8::MAX).filter_map(Opcode::from_byte).collect();
    let mut foreign = 0;
    for wr_id in 0..400 {
        if dice.one_in(3) {
            let len = dice.below(1024);
            let wr = roce_stack::RecvRequest {
                wr_id,
                sges: &[open.sge(1024, len)],
            };
            // The queue may be full.
            let _ = hand.node.nic.post_recv(hand.now, hand.node.qpn, &wr);
        }
        if dice.one_in(4) {
            hand.post(wr_id, SendOp::Send, &[open.sge(0, dice.below(2048))]);
        }
        let opcode = if dice.one_in(3) {
            dice.pick(&opcodes)
        } else {
            dice.pick(&uc_opcodes(&opcodes))
        };
        let psn = if dice.one_in(8) {
            dice.wild32()
        } else {
            hand.psn
        };
        let len = match dice.below(4) {
            0 => dice.below(300),
            _ => 256,
        };
        let mem = if dice.one_in(3) { &secret } else { &open };
        let offset = dice.below(1200);
        let total = match dice.below(3) {
            0 => dice.wild32(),
            1 => 1 + dice.below(1024) as u32,
            _ => len as u32,
        };
        let ext = ExtHeaders {
            imm: Some(ImmDt(1)),
            ..mem.reth(offset, total)
        };
        let mut bth = hand.bth(opcode, psn);
        bth.ack_req = dice.one_in(2);
        hand.psn = bth.psn.next().get();
        let meta = hand.meta();
        let mut packet = crate::sim::hand::frame(meta, bth, ext, &vec![0x11; len]);
        if dice.one_in(6) {
            let at = dice.below(packet.bytes.len());
            packet.bytes[at] = dice.byte();
            seal(&meta, &mut packet.bytes);
        } else if opcode.info().payload.admits(len) {
            let other = [Transport::Uc, Transport::Cnp];
            foreign += u64::from(!other.contains(&opcode.transport()));
        }
        hand.node.nic.receive(hand.now, &meta, &packet.bytes);
        for out in hand.out() {
            assert_eq!(out.opcode().transport(), Transport::Uc);
            assert!(out.opcode().is_request() && !out.bth.ack_req);
        }
        for done in hand.node.received() {
            assert_eq!(done.status, WcStatus::Success);
        }
        hand.node.sent();
    }
    assert_eq!(hand.state(), QpState::Rts);
    assert!(hand.drops(DropReason::WrongTransport) >= foreign);
    assert_eq!(secret.read(0, 2048), [0xd7; 2048]);
}

fn uc_opcodes(all: &[Opcode]) -> Vec<Opcode> {
    let is_uc = |opcode: &Opcode| opcode.transport() == Transport::Uc;
    all.iter().copied().filter(is_uc).collect()
}

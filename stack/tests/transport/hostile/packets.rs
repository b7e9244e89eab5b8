//! Packets that a hostile peer may send.

use crate::sim::Hand;
use crate::sim::hand::{frame, seal};
use crate::sim::port::Frame;
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, ExtHeaders, Ieth, ImmDt, Opcode, PKey, Psn, Reth, Syndrome,
};
use testkit::Dice;

/// The knowledge of the attacker: addresses and keys, and approximately the expected PSNs.
#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    pub(super) regions: Vec<(u64, u32)>,
    /// Bytes of each region.
    pub(super) len: u64,
    /// The next request's PSN, if everything went well so far.
    pub(super) request_psn: u32,
    /// The last PSN that the victim sent.
    pub(super) sent_psn: u32,
    pub(super) mtu: usize,
}

/// All RC opcodes.
fn rc_opcodes() -> Vec<Opcode> {
    (0..0x20).filter_map(Opcode::from_byte).collect()
}

pub(super) fn draw(dice: &mut Dice, hand: &Hand, known: &mut Knowledge) -> Frame {
    let meta = hand.meta();
    match dice.below(10) {
        0 => {
            let mut bytes: Vec<u8> = (0..dice.below(120)).map(|_| dice.byte()).collect();
            if bytes.len() >= 12 && dice.one_in(2) {
                aim(&mut bytes, hand);
            }
            seal(&meta, &mut bytes);
            Frame::new(meta, bytes)
        }
        1 | 2 => {
            let mut packet = crafted(dice, hand, known);
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(packet.bytes.len());
                packet.bytes[at] = dice.byte();
            }
            if dice.one_in(4) {
                packet.bytes.truncate(dice.below(packet.bytes.len() + 1));
            }
            if packet.bytes.len() >= 12 && dice.one_in(2) {
                aim(&mut packet.bytes, hand);
            }
            seal(&meta, &mut packet.bytes);
            packet
        }
        _ => crafted(dice, hand, known),
    }
}

/// Turns arbitrary bytes into an RC packet for the QP.
fn aim(bytes: &mut [u8], hand: &Hand) {
    bytes[0] &= 0x1f;
    bytes[1] &= 0xf0;
    bytes[2..4].fill(0xff);
    bytes[5..8].copy_from_slice(&hand.node.qpn.get().to_be_bytes()[1..]);
}

/// A well-formed packet whose fields are right, nearly right, or random.
fn crafted(dice: &mut Dice, hand: &Hand, known: &mut Knowledge) -> Frame {
    let opcode = dice.pick(&rc_opcodes());
    let base = if opcode.is_request() {
        known.request_psn
    } else {
        known.sent_psn
    };
    let psn = match dice.below(10) {
        0..6 => base,
        6..9 => base.wrapping_add(dice.below(9) as u32).wrapping_sub(4),
        _ => dice.wild32(),
    };
    let mut bth = hand.bth(opcode, Psn::new(psn).get());
    bth.ack_req = dice.one_in(2);
    bth.solicited = dice.one_in(4);
    bth.becn = dice.one_in(8);
    if dice.one_in(50) {
        bth.pkey = PKey(dice.wild32() as u16);
    }
    let len = match dice.below(6) {
        0 => 0,
        1 => dice.below(2 * known.mtu),
        2 => dice.below(16),
        _ => known.mtu,
    };
    let info = opcode.info();
    let len = if info.payload.admits(len) {
        len
    } else {
        known.mtu
    };
    let len = if info.payload.admits(len) { len } else { 0 };
    let len = if opcode == Opcode::RC_ATOMIC_WRITE {
        8
    } else {
        len
    };
    let ext = headers(dice, known, len as u32);
    if opcode.is_request() && psn == base {
        // A READ may advance further; the NAK that then follows is expected.
        known.request_psn = Psn::new(base).next().get();
    }
    let payload: Vec<u8> = (0..len).map(|_| dice.byte() & 0x7f).collect();
    frame(hand.meta(), bth, ext, &payload)
}

fn headers(dice: &mut Dice, known: &Knowledge, len: u32) -> ExtHeaders {
    let (base, key) = dice.pick(&known.regions);
    let va = match dice.below(8) {
        0..5 => base + dice.below(known.len as usize) as u64 / 8 * 8,
        5 => base + known.len - 8,
        6 => base.wrapping_sub(dice.below(64) as u64),
        _ => dice.wild64(),
    };
    let rkey = if dice.one_in(20) { dice.wild32() } else { key };
    let dma_len = match dice.below(6) {
        0..3 => len,
        3 => dice.below(known.len as usize + 2) as u32,
        4 => 3 * known.mtu as u32,
        _ => dice.wild32(),
    };
    let syndrome = match dice.below(4) {
        0 | 1 => Syndrome::from_byte(dice.byte() & 0x1f),
        2 => Syndrome::from_byte(0x20 | (1 + dice.byte() % 12)),
        _ => Syndrome::from_byte(dice.byte()),
    };
    ExtHeaders {
        reth: Some(Reth { va, rkey, dma_len }),
        atomic: Some(AtomicEth {
            va,
            rkey,
            swap_or_add: dice.wild64(),
            compare: dice.below(2) as u64,
        }),
        aeth: Some(Aeth {
            syndrome,
            msn: dice.wild32(),
        }),
        atomic_ack: Some(AtomicAckEth { original: 0x11 }),
        imm: Some(ImmDt(dice.wild32())),
        ieth: Some(Ieth(rkey)),
        ..ExtHeaders::NONE
    }
}

//! The rules that the unreliable services share with RC without sharing code, and those that they
//! leave out (IBTA 1.7, 9.6 and 9.8).

use crate::sim::{Hand, QKEY, Setup};
use roce_stack::{DropReason, QpKind};
use roce_wire::{Deth, ExtHeaders, Opcode, Qpn};

fn setup() -> Setup {
    Setup {
        kind: QpKind::Uc,
        ..Setup::default()
    }
}

// shows: 9.8.2-source
#[test]
fn a_uc_qp_speaks_to_its_peer_only() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(8);
    let (here, there) = (hand.setup.ip.address(1), hand.setup.ip.address(2));
    let other = hand.setup.ip.address(3);
    for (src, dst) in [(other, here), (there, other)] {
        let mut meta = hand.meta();
        (meta.src, meta.dst) = (src, dst);
        let bth = hand.bth(Opcode::UC_WRITE_ONLY, hand.psn);
        hand.deliver_from(meta, bth, mem.reth(0, 8), &[1; 8]);
        assert_eq!(mem.word(0), 0);
    }
    assert_eq!(hand.drops(DropReason::WrongPeer), 2);
}

/// A packet that continues a message of the other kind ends that message.
// shows: 9.8.2-sequence
#[test]
fn a_uc_message_is_of_one_kind() {
    let mut hand = Hand::new(setup());
    let (inbox, target) = (hand.mem(4096), hand.mem(4096));
    hand.post_recv(1, &[inbox.sge(0, 4096)]);
    hand.request(Opcode::UC_WRITE_FIRST, target.reth(0, 1032), &[1; 1024]);
    hand.request(Opcode::UC_SEND_LAST, ExtHeaders::NONE, &[2; 8]);
    assert_eq!(inbox.read(0, 8), [0; 8]);
    hand.request(Opcode::UC_WRITE_LAST, ExtHeaders::NONE, &[3; 8]);
    assert_eq!(target.word(1024), 0);
    hand.request(Opcode::UC_SEND_FIRST, ExtHeaders::NONE, &[4; 1024]);
    hand.request(Opcode::UC_WRITE_LAST, ExtHeaders::NONE, &[5; 8]);
    hand.request(Opcode::UC_SEND_LAST, ExtHeaders::NONE, &[6; 8]);
    assert!(hand.node.received().is_empty());
    assert_eq!(hand.drops(DropReason::OutOfPlace), 4);
}

/// Datagrams carry PSNs that are ignored: any order is delivered, and the same one twice.
// shows: 9.8.3-no-order
#[test]
fn a_datagrams_psn_says_nothing() {
    let mut hand = Hand::new(Setup {
        kind: QpKind::Ud,
        ..Setup::default()
    });
    let mem = hand.mem(64);
    let ext = ExtHeaders {
        deth: Some(Deth {
            qkey: QKEY,
            src_qpn: Qpn::from_bits(5),
        }),
        ..ExtHeaders::NONE
    };
    for psn in [9, 8, 8, 0x80_0000, 0xff_ffff, 10] {
        hand.post_recv(psn.into(), &[mem.sge(0, 64)]);
        let bth = hand.bth(Opcode::UD_SEND_ONLY, psn);
        hand.deliver(bth, ext, &[1; 8]);
        assert_eq!(hand.node.received().len(), 1, "PSN {psn:#x}");
    }
}

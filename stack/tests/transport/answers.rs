//! Fields of responses that matter only to a peer that checks them (IBTA 1.7, 9.7.5 and 9.7.7).

use crate::sim::{Hand, Setup};
use roce_wire::{ExtHeaders, Opcode, PathMtu, Syndrome};

/// The MSN counts completed messages, not packets (9.7.7.1), for SEND as for WRITE.
#[test]
fn the_msn_counts_messages_of_several_packets_once() {
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(1024);
    hand.post_recv(1, &[mem.sge(0, 1024)]);
    let parts = [
        (Opcode::RC_SEND_FIRST, 256, 0),
        (Opcode::RC_SEND_MIDDLE, 256, 0),
        (Opcode::RC_SEND_LAST, 88, 1),
    ];
    for (opcode, len, msn) in parts {
        hand.request(opcode, ExtHeaders::NONE, &vec![1; len]);
        let told = hand.out_one().ext.aeth.map(|aeth| aeth.msn);
        assert_eq!(told, Some(msn), "{opcode:?}");
    }
}

/// A WRITE of no bytes is accepted with any key (9.7.4.1.5).
#[test]
fn a_write_of_no_bytes_needs_no_key() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let mut ext = mem.reth(0, 0);
    if let Some(reth) = ext.reth.as_mut() {
        reth.rkey ^= 0x55;
    }
    hand.request(Opcode::RC_WRITE_ONLY, ext, &[]);
    let syndrome = hand.out_one().syndrome();
    assert!(matches!(syndrome, Some(Syndrome::Ack(_))), "{syndrome:?}");
}

/// An unsolicited acknowledgement announces a receive only to a peer that waits for one (9.7.7.2).
#[test]
fn a_receive_is_told_of_only_to_who_waits_for_it() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_WRITE_ONLY, mem.reth(0, 8), &[1; 8]);
    hand.out_one();
    hand.post_recv(2, &[mem.sge(0, 8)]);
    assert!(hand.out().is_empty(), "the peer knows of a receive");
    // Nothing of the first request has been executed, so nothing can be acknowledged.
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    hand.out_one();
    hand.post_recv(1, &[mem.sge(0, 8)]);
    assert!(hand.out().is_empty());
}

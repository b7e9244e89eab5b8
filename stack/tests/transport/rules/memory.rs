//! The memory that a QP and its peer may use (IBTA 1.7, 10.6.3).

use crate::sim::{Hand, Mem, Setup};
use roce_stack::{Access, Buffer, QpState, RegisterError, SendOp, Sge, WcStatus};
use roce_wire::{ExtHeaders, Ieth, Opcode};
use std::sync::Arc;

/// A region of another protection domain than the QP's.
fn foreign(hand: &mut Hand, access: Access) -> Mem {
    let pd = hand.node.nic.alloc_pd();
    let buffer = Arc::new(Buffer::new(64).expect("a buffer"));
    let nic = &mut hand.node.nic;
    let key = nic
        .register_buffer(pd, Arc::clone(&buffer), access)
        .expect("registered");
    Mem { buffer, key }
}

/// A local key of another domain is invalid, for sending and for receiving.
// shows: 10.2.3-pd-local
#[test]
fn local_memory_of_another_domain_is_refused() {
    let mut hand = Hand::new(Setup::default());
    let mem = foreign(&mut hand, Access::ANY_MEMORY);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    assert!(hand.out().is_empty());
    let sent = hand.node.sent();
    assert_eq!(sent[0].status, WcStatus::LocalProtectionError);
    let mut hand = Hand::new(Setup::default());
    let mem = foreign(&mut hand, Access::ANY_MEMORY);
    hand.post_recv(1, &[mem.sge(0, 8)]);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[1; 8]);
    let received = hand.node.received();
    assert_eq!(received[0].status, WcStatus::LocalProtectionError);
    assert_eq!(mem.word(0), 0);
}

/// A peer can't invalidate a key of another domain, even if its owner allows it.
// shows: 9.4.1.1-invalidate-pd
#[test]
fn a_key_of_another_domain_is_not_invalidated() {
    let mut hand = Hand::new(Setup::default());
    let mem = foreign(&mut hand, Access::ANY_MEMORY);
    hand.post_recv(1, &[]);
    let ext = ExtHeaders {
        ieth: Some(Ieth(mem.key)),
        ..ExtHeaders::NONE
    };
    hand.request(Opcode::RC_SEND_ONLY_WITH_INVALIDATE, ext, &[]);
    assert_eq!(hand.out(), [], "no NAK");
    let received: Vec<_> = hand.node.received().iter().map(|c| c.status).collect();
    assert_eq!(received, [WcStatus::RemoteInvalidRequest]);
    assert_eq!(hand.state(), QpState::Err);
}

/// Sending reads local memory, which needs no right.
// shows: 10.6.3-local-read
#[test]
fn sending_needs_no_right() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.node.mem_with(8, Access::empty());
    mem.write(0, &[3; 8]);
    hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
    assert_eq!(hand.out_one().payload, [3; 8]);
}

/// Elements of no bytes are skipped, with any key.
// shows: 10.6.3-zero-length-element
#[test]
fn an_element_of_no_bytes_needs_no_key() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let nothing = Sge {
        addr: 5,
        length: 0,
        lkey: mem.key ^ 1,
    };
    let sges = [nothing, mem.sge(0, 4), nothing, mem.sge(4, 4)];
    mem.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    hand.post(1, SendOp::Send, &sges);
    assert_eq!(hand.out_one().payload, [1, 2, 3, 4, 5, 6, 7, 8]);
    hand.post_recv(1, &sges);
    hand.request(Opcode::RC_SEND_ONLY, ExtHeaders::NONE, &[9; 8]);
    assert_eq!(mem.read(0, 8), [9; 8]);
}

// shows: 10.6.2-pd-known
#[test]
fn a_region_needs_a_domain_of_its_nic() {
    let mut hand = Hand::new(Setup::default());
    let mut other = Hand::new(Setup::default());
    for _ in 0..3 {
        other.node.nic.alloc_pd();
    }
    let unknown = other.node.nic.alloc_pd();
    let buffer = Arc::new(Buffer::new(8).expect("a buffer"));
    let result = hand
        .node
        .nic
        .register_buffer(unknown, buffer, Access::empty());
    assert_eq!(result, Err(RegisterError::UnknownPd));
}

//! Refused requests.

use super::{Ends, Srq, Target};
use crate::sim::{A, B, Setup};
use roce_stack::{
    Event, PostError, QpKind, QpState, QueueLimits, RecvRequest, SendOp, SendRequest, SrqInit,
    Srqn, WcOpcode, WcStatus,
};
use roce_wire::{ExtHeaders, NakCode, Opcode, Syndrome};

/// A number that is not that of an SRQ in the target's domain is an invalid request: none at all,
/// one of another domain, one that is not of XRC, one that was destroyed.
// shows: A14-srq-unknown, A14-srq-domain
#[test]
fn an_srq_that_is_not_of_the_domain_is_refused() {
    for case in 0..4 {
        for op_of in [send as fn(&Ends) -> SendOp, read] {
            let mut ends = Ends::new(Setup::default());
            let nic = &mut ends.pair.nodes[B].nic;
            let number = match case {
                0 => Srqn::from(roce_wire::Qpn::from_bits(
                    (ends.srqs[0].number.get() + 1) & 0xff_ffff,
                )),
                1 => {
                    let elsewhere = nic.create_xrcd();
                    Srq::new(nic, elsewhere).number
                }
                2 => {
                    let size = QueueLimits {
                        depth: 4,
                        max_sge: 1,
                    };
                    let pd = ends.srqs[0].pd;
                    nic.create_srq(&SrqInit { pd, size }).expect("an SRQ")
                }
                _ => {
                    nic.destroy_srq(ends.srqs[1].number).expect("not bound");
                    ends.srqs[1].number
                }
            };
            let op = op_of(&ends);
            ends.post(1, op, &[], number);
            ends.pair.run();
            let refused = [(1, WcStatus::RemoteInvalidRequest)];
            ends.pair.assert_sent_as(A, &refused);
            assert_eq!(ends.pair.state(B), QpState::Err);
            let told = Event::QpRequestError(ends.pair.nodes[B].qpn);
            assert_eq!(ends.pair.nodes[B].events, [told], "case {case}");
        }
    }
}

fn send(_: &Ends) -> SendOp {
    SendOp::Send
}

/// Of no bytes: it needs no key, but an SRQ.
fn read(_: &Ends) -> SendOp {
    SendOp::Read(roce_stack::RemoteAddr { addr: 0, rkey: 0 })
}

/// The SRQ's protection domain determines what its peers can access: with another SRQ of the same
/// XRC domain, the same key opens nothing.
// shows: A14-pd
#[test]
fn memory_belongs_to_the_srq_that_is_named() {
    for op in 0..4 {
        for named in [0, 1] {
            let mut ends = Ends::new(Setup::default());
            let local = ends.pair.mem(A, 64);
            let mem = ends.target_mem(0, 64);
            mem.write(0, &[7; 64]);
            let remote = mem.remote(0);
            let op = [
                SendOp::Write(remote),
                SendOp::Read(remote),
                SendOp::FetchAdd { remote, add: 1 },
                SendOp::CompareSwap {
                    remote,
                    compare: 0,
                    swap: 1,
                },
            ][op];
            let number = ends.srqs[named].number;
            ends.post(1, op, &[local.sge(0, 8)], number);
            ends.pair.run();
            let status = match named {
                0 => WcStatus::Success,
                _ => WcStatus::RemoteAccessError,
            };
            ends.pair.assert_sent_as(A, &[(1, status)]);
            if named == 1 {
                assert_eq!(mem.read(0, 64), [7; 64]);
                assert_eq!(local.read(0, 8), [0; 8]);
                let told = Event::QpAccessError(ends.pair.nodes[B].qpn);
                assert_eq!(ends.pair.nodes[B].events, [told]);
            }
        }
    }
}

/// READs of two SRQs that wait to be answered at the same time are each answered from their own
/// domain, also when they are retransmitted.
#[test]
fn reads_of_two_srqs_are_kept_apart() {
    let mut target = Target::new();
    let nic = &mut target.hand.node.nic;
    let mem = [target.srqs[0].mem(nic, 8), target.srqs[1].mem(nic, 8)];
    mem[0].write(0, &[3; 8]);
    mem[1].write(0, &[4; 8]);
    let numbers = [target.srqs[0].number, target.srqs[1].number];
    let first = target.hand.psn;
    for _ in 0..2 {
        target.hand.psn = first;
        for (srq, mem) in numbers.into_iter().zip(&mem) {
            target.request(srq, Opcode::XRC_READ_REQUEST, mem.reth(0, 8), &[]);
        }
        let out = target.hand.out();
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].payload, [3; 8]);
        assert_eq!(out[1].payload, [4; 8]);
    }
}

/// All packets of a message name one SRQ.
#[test]
fn a_message_that_changes_its_srq_is_refused() {
    let mut target = Target::new();
    let numbers = [target.srqs[0].number, target.srqs[1].number];
    let mem = target.srqs[0].mem(&mut target.hand.node.nic, 4096);
    target.srqs[0].post(&mut target.hand.node.nic, 1, &[mem.sge(0, 4096)]);
    target.srqs[1].post(&mut target.hand.node.nic, 2, &[]);
    let none = ExtHeaders::NONE;
    target.request(numbers[0], Opcode::XRC_SEND_FIRST, none, &[1; 1024]);
    target.hand.out();
    target.request(numbers[1], Opcode::XRC_SEND_LAST, none, &[1; 8]);
    let nak = target.hand.out_one();
    let invalid = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(nak.syndrome(), Some(invalid));
    assert_eq!(nak.opcode(), Opcode::XRC_ACKNOWLEDGE);
    // The receive that was taken is flushed to its own CQ.
    let flushed = target.srqs[0].received();
    assert_eq!((flushed.len(), flushed[0].wr_id), (1, 1));
    assert_eq!(flushed[0].status, WcStatus::WorkRequestFlushed);
    assert!(target.srqs[1].received().is_empty());
}

/// Destroying an SRQ in mid-message ends the message; the receive that it holds still completes.
#[test]
fn an_srq_can_go_in_mid_message() {
    let mut target = Target::new();
    let number = target.srqs[0].number;
    let mem = target.srqs[0].mem(&mut target.hand.node.nic, 4096);
    target.srqs[0].post(&mut target.hand.node.nic, 1, &[mem.sge(0, 4096)]);
    let none = ExtHeaders::NONE;
    target.request(number, Opcode::XRC_SEND_FIRST, none, &[1; 1024]);
    target.hand.node.nic.destroy_srq(number).expect("not bound");
    target.request(number, Opcode::XRC_SEND_LAST, none, &[1; 8]);
    assert_eq!(target.hand.state(), QpState::Err);
    let flushed = target.srqs[0].received();
    assert_eq!((flushed.len(), flushed[0].wr_id), (1, 1));
}

/// Each kind accepts its own postings.
// shows: A14-no-recv-queue, A14-ini-tgt
#[test]
fn each_kind_takes_its_postings() {
    let mut ends = Ends::new(Setup::default());
    let number = ends.srqs[0].number;
    let now = ends.pair.now;
    let send = SendRequest::new(1, SendOp::Send, ());
    let recv = RecvRequest {
        wr_id: 1,
        sges: &[],
    };
    for (side, kind, without) in [
        (A, QpKind::XrcInitiator, PostError::NoSrqNamed),
        (
            B,
            QpKind::XrcTarget,
            PostError::WrongService {
                kind: QpKind::XrcTarget,
                opcode: WcOpcode::Send,
            },
        ),
    ] {
        let (nic, qpn) = (&mut ends.pair.nodes[side].nic, ends.pair.nodes[side].qpn);
        assert_eq!(nic.post_send(now, qpn, &send), Err(without));
        let none = Err(PostError::NoReceiveQueue { kind });
        assert_eq!(nic.post_recv(now, qpn, &recv), none);
        let named = nic.post_send(now, qpn, &send.to(number));
        assert_eq!(named.is_ok(), side == A);
    }
    // RC can't send to an SRQ.
    let mut pair = crate::sim::Pair::new(Setup::default());
    let (nic, qpn) = (&mut pair.nodes[A].nic, pair.nodes[A].qpn);
    let error = PostError::WrongService {
        kind: QpKind::Rc,
        opcode: WcOpcode::Send,
    };
    let posted = nic.post_send(pair.now, qpn, &send.to(number));
    assert_eq!(posted, Err(error));
}

/// Each kind has its own attributes.
#[test]
fn each_kind_takes_its_attributes() {
    let setup = Setup::default();
    let ends = Ends::new(setup);
    for side in [A, B] {
        let mut pair = crate::sim::Pair::unconnected(setup);
        let node = &mut pair.nodes[side];
        node.qpn = match side {
            A => {
                let init = super::initiator(node.pd, &node.send_cq, setup.queue);
                node.nic.create_qp(init).expect("a QP")
            }
            _ => {
                let domain = node.nic.create_xrcd();
                node.nic.create_xrc_target(domain).expect("a target")
            }
        };
        pair.modify(side, &setup.init());
        let rtr = setup.rtr(pair.path(side), ends.pair.nodes[A].qpn, 5);
        let node = &mut pair.nodes[side];
        let all = node.nic.modify_qp(pair.now, node.qpn, &rtr);
        // RC's attributes are one too many for an initiator, and right for a target.
        assert_eq!(all.is_ok(), side == B, "{all:?}");
        let rtr = match side {
            A => super::of_initiator(rtr),
            _ => continue,
        };
        let few = node.nic.modify_qp(pair.now, node.qpn, &rtr);
        assert!(few.is_ok(), "{few:?}");
    }
}

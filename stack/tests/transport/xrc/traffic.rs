//! The operations of RC, through XRC, to several SRQs.

use super::{Ends, Srq};
use crate::sim::{A, B, Faults, Setup, pattern};
use roce_stack::{QpState, SendOp, Stat, WcOpcode, WcStatus};

/// Messages reach the SRQ that they name, and complete to its CQ only.
// shows: A14-any-srq, A14-cq
#[test]
fn each_message_reaches_its_srq() {
    let mut ends = Ends::new(Setup::default());
    let from = ends.pair.mem(A, 4096);
    let to = [ends.target_mem(0, 4096), ends.target_mem(1, 4096)];
    for srq in [0, 1] {
        for wr_id in 0..3_usize {
            let sges = [to[srq].sge(wr_id * 1024, 1024)];
            ends.post_recv(srq, 10 * srq as u64 + wr_id as u64, &sges);
        }
    }
    from.write(0, &pattern(5, 4096));
    let numbers = [ends.srqs[0].number, ends.srqs[1].number];
    for (wr_id, srq) in [0, 1, 1, 0, 1, 0].into_iter().enumerate() {
        let sges = [from.sge(wr_id * 100, 100)];
        ends.post(
            wr_id as u64,
            SendOp::SendImm(srq as u32),
            &sges,
            numbers[srq],
        );
    }
    ends.pair.run();
    ends.pair.assert_sent(A, &[0, 1, 2, 3, 4, 5]);
    for (srq, sent) in [[0, 3, 5], [1, 2, 4]].into_iter().enumerate() {
        let done = ends.srqs[srq].received();
        assert_eq!(done.len(), 3);
        for (n, completion) in done.iter().enumerate() {
            assert_eq!(completion.wr_id, 10 * srq as u64 + n as u64);
            assert_eq!(completion.status, WcStatus::Success);
            assert_eq!(completion.qpn, ends.pair.nodes[B].qpn);
            assert_eq!(completion.imm, Some(srq as u32));
            let text = &pattern(5, 4096)[sent[n] * 100..][..100];
            assert_eq!(to[srq].read(n * 1024, 100), text);
        }
    }
    assert!(ends.pair.nodes[B].received().is_empty());
}

/// Every operation of RC, long and short, over a wire that loses, duplicates, reorders and damages
/// packets.
#[test]
fn every_operation_over_a_bad_wire() {
    const LEN: usize = 5000;
    for seed in 1..=20 {
        let mut ends = Ends::new(Setup {
            seed,
            timeout: 6,
            ..Setup::default()
        });
        for side in [A, B] {
            ends.pair.links[side].faults = Faults {
                drop: 300,
                duplicate: 300,
                reorder: 300,
                corrupt: 100,
            };
        }
        let from = ends.pair.mem(A, 4 * LEN);
        let to = [ends.target_mem(0, 4 * LEN), ends.target_mem(1, 4 * LEN)];
        let text = pattern(seed, LEN);
        from.write(0, &text);
        let mut wr_ids = Vec::new();
        for srq in [0, 1] {
            let number = ends.srqs[srq].number;
            let mem = &to[srq];
            for wr_id in 0..2 {
                ends.post_recv(srq, wr_id, &[mem.sge(0, LEN)]);
            }
            let word = mem.remote(3 * LEN);
            let ops = [
                (SendOp::Send, 0, LEN),
                (SendOp::Write(mem.remote(LEN)), 0, LEN),
                (SendOp::WriteImm(mem.remote(2 * LEN), 7), 0, LEN),
                (SendOp::Read(mem.remote(LEN)), (2 + srq) * LEN, LEN),
                (
                    SendOp::FetchAdd {
                        remote: word,
                        add: 3,
                    },
                    LEN,
                    8,
                ),
                (
                    SendOp::CompareSwap {
                        remote: word,
                        compare: 3,
                        swap: 99,
                    },
                    LEN + 8,
                    8,
                ),
            ];
            for (op, offset, len) in ops {
                let wr_id = wr_ids.len() as u64;
                wr_ids.push(wr_id);
                ends.post(wr_id, op, &[from.sge(offset, len)], number);
            }
        }
        ends.pair.run();
        ends.pair.assert_sent(A, &wr_ids);
        for (srq, mem) in to.iter().enumerate() {
            for part in 0..3 {
                assert!(
                    mem.read(part * LEN, LEN) == text,
                    "seed {seed}, part {part}"
                );
            }
            assert!(from.read((2 + srq) * LEN, LEN) == text, "seed {seed}");
            assert_eq!(mem.word(3 * LEN), 99, "each atomic once: seed {seed}");
            let done = ends.srqs[srq].received();
            let kinds: Vec<_> = done.iter().map(|c| (c.wr_id, c.opcode)).collect();
            let expected = [(0, WcOpcode::Recv), (1, WcOpcode::RecvRdmaWithImm)];
            assert_eq!(kinds, expected, "seed {seed}");
        }
    }
}

/// An empty SRQ is "receiver not ready", as with RC.
#[test]
fn an_empty_srq_is_waited_for() {
    let mut ends = Ends::new(Setup::default());
    let number = ends.srqs[1].number;
    ends.post_recv(0, 5, &[]);
    ends.post(1, SendOp::Send, &[], number);
    ends.pair
        .run_until(|pair| pair.nodes[A].nic.counters().stat(Stat::RnrNaksReceived) == 2);
    ends.post_recv(1, 6, &[]);
    ends.pair.run();
    ends.pair.assert_sent(A, &[1]);
    assert_eq!(ends.srqs[1].received()[0].wr_id, 6);
    assert!(ends.srqs[0].received().is_empty());
}

/// Several targets of a domain share its SRQs.
#[test]
fn targets_share_the_srqs_of_their_domain() {
    let mut first = super::Target::new();
    let hand = &mut first.hand;
    let other = hand.node.nic.create_xrc_target(first.domain);
    let one = hand.node.qpn;
    let srq = first.srqs[0].number;
    first.srqs[0].post(&mut first.hand.node.nic, 1, &[]);
    first.srqs[0].post(&mut first.hand.node.nic, 2, &[]);
    let send = roce_wire::Opcode::XRC_SEND_ONLY;
    first.request(srq, send, roce_wire::ExtHeaders::NONE, &[]);
    first.hand.node.qpn = other.expect("another target");
    first.connect();
    first.request(srq, send, roce_wire::ExtHeaders::NONE, &[]);
    let done = first.srqs[0].received();
    let from: Vec<_> = done.iter().map(|c| (c.wr_id, c.qpn)).collect();
    assert_eq!(from, [(1, one), (2, first.hand.node.qpn)]);
}

/// Domains and their objects are destroyed in order.
// shows: A14-domain
#[test]
fn a_domain_in_use_stays() {
    use roce_stack::SrqError::{DomainInUse, UnknownDomain, WrongKind};
    let mut ends = Ends::new(Setup::default());
    let domain = ends.domain;
    let in_use = |users| Err(DomainInUse { domain, users });
    let setup = ends.pair.setup;
    let node = &mut ends.pair.nodes[B];
    let nic = &mut node.nic;
    assert_eq!(nic.destroy_xrcd(domain), in_use(3));
    // SRQs of XRC are for targets only.
    let mut init = super::initiator(node.pd, &node.send_cq, setup.queue);
    for kind in [roce_stack::QpKind::Rc, roce_stack::QpKind::XrcInitiator] {
        init.kind = kind;
        let srq = ends.srqs[0].number;
        let error = nic.create_qp_with_srq(init.clone(), srq);
        assert_eq!(error, Err(WrongKind { srq, kind }.into()));
        assert_eq!(nic.query_srq(srq).map(|status| status.qps), Some(0));
    }
    for (left, srq) in [(2, &ends.srqs[0]), (1, &ends.srqs[1])] {
        nic.destroy_srq(srq.number).expect("no QP is bound to it");
        assert_eq!(nic.destroy_xrcd(domain), in_use(left));
    }
    assert!(nic.destroy_qp(node.qpn));
    assert_eq!(nic.destroy_xrcd(domain), Ok(()));
    let unknown = UnknownDomain(domain);
    assert_eq!(nic.destroy_xrcd(domain), Err(unknown));
    assert_eq!(nic.create_xrc_target(domain), Err(unknown.into()));
    for error in [
        unknown.to_string(),
        DomainInUse { domain, users: 3 }.to_string(),
    ] {
        assert!(error.contains(&domain.to_string()), "{error}");
    }
    let other = nic.create_xrcd();
    let srq = Srq::new(nic, other);
    assert!(nic.query_srq(srq.number).is_some());
}

/// SQD drains an initiator as it does an RC QP, and ERR flushes it.
#[test]
fn an_initiator_drains_and_flushes() {
    let mut ends = Ends::new(Setup::default());
    let number = ends.srqs[0].number;
    for wr_id in 0..3 {
        ends.post_recv(0, wr_id, &[]);
        ends.post(wr_id, SendOp::Send, &[], number);
    }
    ends.pair.pump();
    ends.pair.modify(A, &crate::sim::to_state(QpState::Sqd));
    ends.post(3, SendOp::Send, &[], number);
    ends.pair.run();
    ends.pair.assert_sent(A, &[0, 1, 2]);
    let drained = roce_stack::Event::SqDrained(ends.pair.nodes[A].qpn);
    assert_eq!(ends.pair.nodes[A].events, [drained]);
    ends.pair.modify(A, &crate::sim::to_state(QpState::Err));
    ends.post(4, SendOp::Send, &[], number);
    let flushed = WcStatus::WorkRequestFlushed;
    ends.pair.assert_sent_as(A, &[(3, flushed), (4, flushed)]);
}

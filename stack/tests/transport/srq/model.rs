//! Random traffic of many QPs on one SRQ, against a model that is a `VecDeque`.

use super::Many;
use crate::sim::to_state;
use roce_stack::QpState;
use roce_wire::Opcode;
use std::collections::VecDeque;
use testkit::Dice;

const QPS: usize = 5;

/// Every receive completes once, at the QP whose message took it; none is lost except those that a
/// reset QP held.
// shows: 10.2.9-srq
#[test]
fn the_srq_behaves_like_its_model() {
    for seed in 1..=30 {
        let mut dice = Dice::new(seed);
        let mut many = Many::new(QPS);
        let mem = many.hand.mem(4096);
        let mut queue = VecDeque::new();
        let mut held = [None; QPS];
        let mut expected = Vec::new();
        let mut next_id = 0;
        for _ in 0..400 {
            let qp = dice.below(QPS);
            match dice.below(10) {
                0..=3 if queue.len() < 16 => {
                    many.post(next_id, &[mem.sge(0, 4096)]);
                    queue.push_back(next_id);
                    next_id += 1;
                }
                4..=5 if held[qp].is_none() => {
                    many.send(qp, Opcode::RC_SEND_ONLY, &[1; 8]);
                    match queue.pop_front() {
                        Some(id) => expected.push((id, qp, true)),
                        None => many.qps[qp].1 -= 1,
                    }
                }
                6..=7 if held[qp].is_none() => {
                    many.send(qp, Opcode::RC_SEND_FIRST, &[1; 1024]);
                    held[qp] = queue.pop_front();
                    many.qps[qp].1 -= u32::from(held[qp].is_none());
                }
                4..=7 => {
                    many.send(qp, Opcode::RC_SEND_LAST, &[1; 8]);
                    let id = held[qp].take().expect("checked above");
                    expected.push((id, qp, true));
                }
                8 => {
                    fail(&mut many, qp);
                    expected.extend(held[qp].take().map(|id| (id, qp, false)));
                    // Polled now, since RESET drops completions that have not been polled.
                    assert_eq!(many.received(), expected, "seed {seed}");
                    expected.clear();
                    revive(&mut many, qp);
                }
                9 if dice.below(4) == 0 => {
                    held[qp] = None;
                    revive(&mut many, qp);
                }
                _ => {}
            }
            many.hand.out();
            let status = many.status();
            assert_eq!(
                (status.posted, status.qps),
                (queue.len(), QPS),
                "seed {seed}"
            );
            assert_eq!(many.received(), expected, "seed {seed}");
            expected.clear();
        }
    }
}

fn fail(many: &mut Many, qp: usize) {
    let now = many.hand.now;
    let hand = many.on(qp);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(now, qpn, &to_state(QpState::Err))
        .expect("legal");
}

fn revive(many: &mut Many, qp: usize) {
    let now = many.hand.now;
    let hand = many.on(qp);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(now, qpn, &to_state(QpState::Reset))
        .expect("legal");
    hand.advance_to(QpState::Rts);
    many.qps[qp].1 = many.hand.setup.psn[1];
}

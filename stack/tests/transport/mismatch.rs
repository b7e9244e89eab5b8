//! Packets that do not fit a QP: what was compared is reported once, and the QP does not fail.

use crate::sim::{A, B, Pair, Setup, to_state};
use roce_observe::{InWords, advice_on};
use roce_stack::{Difference, Mismatch, QpState, SendOp};

/// WRITEs of A to a QP of B in this state, until A gives up. Returns what B reports.
fn writes_to(state: QpState) -> Vec<Mismatch> {
    let mut pair = Pair::new(Setup::default());
    let local = pair.mem(A, 64);
    let remote = pair.mem(B, 64).remote(0);
    pair.modify(B, &to_state(state));
    pair.post(A, 1, SendOp::Write(remote), &[local.sge(0, 8)]);
    pair.run();
    std::iter::from_fn(|| pair.nodes[B].nic.poll_mismatch()).collect()
}

#[test]
fn a_state_that_takes_no_packets_is_named_once() {
    for state in [QpState::Err, QpState::Reset] {
        let found = writes_to(state);
        let [only] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(only.difference, Difference::State(state));
        assert_eq!(only.times, 3, "it is retransmitted at least twice");
        let text = InWords(only).to_string();
        let words = format!(
            "the QP is in state {}, in which it takes none",
            state.name()
        );
        assert!(text.ends_with(&words), "{text}");
        assert!(!advice_on(only).is_empty());
    }
}

/// Packets that fit are not reported.
#[test]
fn peers_that_fit_report_nothing() {
    assert_eq!(writes_to(QpState::Rts), []);
}

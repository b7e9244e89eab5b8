//! Packets that arrived before a QP goes to ERR, goes to RESET or is destroyed are still processed.

#[allow(dead_code)]
mod support;

use roce_verbs::qp::{QpAttributes, QpState};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{Completion, CompletionQueue, RecvRequest, SendOp, SendRequest, WcStatus};
use std::time::Duration;
use support::End;

const TIMEOUT: Duration = Duration::from_secs(60);

fn completion(cq: &CompletionQueue) -> Completion {
    let polled = cq.poll_for(TIMEOUT).expect("no overrun");
    polled.expect("a completion")
}

fn to(end: &End, state: QpState) {
    let attributes = QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    };
    end.qp.modify(&attributes).expect("the state is reached");
}

/// The receiver of a message ends the connection at once. Its acknowledgement is already in the
/// sender's socket when the sender learns of the end by other means and gives up its QP.
#[test]
fn an_acknowledgement_that_has_arrived_is_processed_before_the_qp_goes_to_err() {
    let options = OpenOptions::new();
    let (a, b) = (End::open(1, &options), End::open(2, &options));
    for round in 0..50 {
        a.connect(&b);
        b.connect(&a);
        let sges = [b.region.slice(0, 64).expect("in range")];
        let receive = RecvRequest {
            wr_id: round,
            sges: &sges,
        };
        b.qp.post_recv(&receive).expect("posted");
        let sges = [a.region.slice(0, 64).expect("in range")];
        let send = SendRequest::new(round, SendOp::Send, &sges);
        a.qp.post_send(&send).expect("posted");
        assert_eq!(completion(&b.cq).status, WcStatus::Success);
        // Going to ERR sends the acknowledgement first.
        to(&b, QpState::Err);
        to(&a, QpState::Err);
        let sent = completion(&a.cq);
        assert_eq!(
            (sent.wr_id, sent.status),
            (round, WcStatus::Success),
            "the peer had received the message and acknowledged it"
        );
        to(&a, QpState::Reset);
        to(&b, QpState::Reset);
    }
}

/// A program may end with its last message still in its socket. The sender must not have to wait
/// for an acknowledgement until its retries are used up.
#[test]
fn a_message_that_has_arrived_is_acknowledged_before_the_qp_is_destroyed() {
    let options = OpenOptions::new();
    for last in 0..20 {
        let (a, b) = (
            End::open(3 + 2 * last, &options),
            End::open(4 + 2 * last, &options),
        );
        a.connect(&b);
        b.connect(&a);
        // From now on, what is posted is at the peer when the call returns.
        a.run(SendOp::Write(b.region.remote(0)));
        let sges = [b.region.slice(0, 64).expect("in range")];
        let receive = RecvRequest {
            wr_id: 1,
            sges: &sges,
        };
        b.qp.post_recv(&receive).expect("posted");
        let sges = [a.region.slice(0, 64).expect("in range")];
        let send = SendRequest::new(1, SendOp::Send, &sges);
        a.qp.post_send(&send).expect("posted");
        drop(b.qp);
        assert_eq!(completion(&a.cq).status, WcStatus::Success);
    }
}

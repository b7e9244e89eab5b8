//! Programs that watch their memory for a peer's writes, and make no call meanwhile.

mod support;

use roce_verbs::completion::WcOpcode;
use roce_verbs::qp::{PathMtu, QpAttributes, QpState};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{SendOp, SendRequest, WcStatus};
use std::time::{Duration, Instant};
use support::{End, LEN};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The offset of the byte that is watched. The first byte is the one that is sent.
const WATCHED: usize = 8;

fn send_mark(from: &End, to: &End, mark: u8) {
    from.region.write(0, &[mark]).expect("in range");
    let sge = from.region.slice(0, 1).expect("in range");
    let op = SendOp::Write(to.region.remote(WATCHED as u64));
    let posted = from.qp.post_send(&SendRequest::new(mark.into(), op, sge));
    posted.expect("posted");
    let until = Instant::now() + TIMEOUT;
    while to.region.load_u8(WATCHED).expect("in range") != mark {
        assert!(Instant::now() < until, "the byte does not come");
        std::hint::spin_loop();
    }
}

/// Takes completions, as programs do now and then.
fn take(end: &End) {
    while let Some(done) = end.cq.poll().expect("no overrun") {
        assert_eq!(done.status, WcStatus::Success);
    }
}

/// The number of packets that left together with others.
fn joined(end: &End) -> u64 {
    let counters = end.context.port_counters();
    let of = |name| counters.iter().find(|(n, _)| *n == name).expect(name).1;
    of("tx_packets") - of("tx_datagrams")
}

/// Once the background thread has seen that the program watches its memory, an answer and the
/// acknowledgement of its request leave together. On a busy machine that thread is sometimes late,
/// and sends acknowledgements by themselves. It is enough if most of about a hundred leave
/// together.
#[test]
fn an_answer_and_an_acknowledgement_share_a_datagram() {
    const ROUNDS: u8 = 100;
    let options = support::sockets_only();
    let ends = [101, 102].map(|last| End::open(last, &options));
    let [a, b] = &ends;
    a.connect(b);
    b.connect(a);
    // Until here, the application polls.
    a.run(SendOp::Write(b.region.remote(0)));
    let until = Instant::now() + TIMEOUT;
    loop {
        let before = ends.each_ref().map(joined);
        for mark in 1..=ROUNDS {
            send_mark(a, b, mark);
            send_mark(b, a, mark);
            ends.iter().for_each(take);
        }
        let mut after = ends.iter().map(joined).zip(before);
        if after.all(|(after, before)| after - before > u64::from(ROUNDS) / 2) {
            break;
        }
        assert!(Instant::now() < until, "most packets leave by themselves");
    }
}

/// A program may see its peer's bytes before the peer has the acknowledgement for them. If the
/// program then resets its QP, as a server does after its client's last message, the peer's WRITE
/// must still succeed. Here the QP itself has much to send at that moment.
#[test]
fn packets_that_have_arrived_are_acknowledged_before_the_qp_is_reset() {
    const LAST: usize = LEN - 1;
    for mark in 1..=20 {
        let options = match mark % 2 {
            0 => OpenOptions::new(),
            _ => support::sockets_only(),
        };
        let ends = [111, 112].map(|last| End::open(last, &options));
        let [a, b] = &ends;
        a.connect_with(b, Some(PathMtu::Mtu256));
        b.connect_with(a, Some(PathMtu::Mtu256));
        b.region.write(LAST, &[0]).expect("in range");

        a.region.write(0, &[mark]).expect("in range");
        let sge = a.region.slice(0, 1).expect("in range");
        let op = SendOp::Write(b.region.remote(LAST as u64));
        let said = a.qp.post_send(&SendRequest::new(1, op, sge));
        said.expect("posted");

        let sges = [b.region.slice(0, LEN / 2).expect("in range")];
        // Not to the mark: it may not have been read yet.
        let op = SendOp::Write(a.region.remote(1));
        let requests = [SendRequest::new(2, op, &sges); 4];
        b.qp.post_sends(&requests).expect("posted");
        let until = Instant::now() + TIMEOUT;
        while b.region.load_u8(LAST).expect("in range") != mark {
            assert!(Instant::now() < until, "the byte does not come");
            b.context.drive();
        }
        let reset = QpAttributes {
            state: Some(QpState::Reset),
            ..QpAttributes::default()
        };
        b.qp.modify(&reset).expect("from any state");

        let done = a.cq.poll_for(TIMEOUT).expect("no overrun").expect("done");
        assert_eq!(
            (done.opcode, done.status),
            (WcOpcode::RdmaWrite, WcStatus::Success)
        );
    }
}

//! Completion events on channels.

use super::{End, TIMEOUT, gid_index, pair};
use roce_verbs::completion::{CompletionChannel, Notify};
use roce_verbs::{
    CompletionQueue, ConnectOptions, QpOptions, QueuePair, RecvRequest, SendOp, SendRequest,
    WcStatus,
};
use std::time::Duration;

/// Two connected ends. Messages from `a` complete at `b`, in a queue with a channel.
struct EventPair {
    a: End,
    b: End,
    from: QueuePair,
    to: QueuePair,
    cq: CompletionQueue,
    channel: CompletionChannel,
}

fn event_pair() -> EventPair {
    let (a, b) = pair(4096, &ConnectOptions::default());
    let channel = b.context.create_channel().expect("channel");
    let cq = b.context.create_cq_with_channel(16, &channel);
    let qp =
        b.pd.create_qp(&cq, &cq, &QpOptions::default())
            .expect("a QP");
    let a_qp =
        a.pd.create_qp(&a.cq, &a.cq, &QpOptions::default())
            .expect("a QP");
    let (index_a, index_b) = (gid_index(&a.context, a.at), gid_index(&b.context, b.at));
    let from_a = a_qp.endpoint(index_a).expect("endpoint");
    let from_b = qp.endpoint(index_b).expect("endpoint");
    qp.connect(index_b, &from_a, &ConnectOptions::default())
        .expect("connected");
    a_qp.connect(index_a, &from_b, &ConnectOptions::default())
        .expect("connected");
    EventPair {
        a,
        b,
        from: a_qp,
        to: qp,
        cq,
        channel,
    }
}

impl EventPair {
    fn send(&self, wr_id: u64) {
        let sge = self.b.region.all().expect("small");
        let sges = &[sge];
        let posted = self.to.post_recv(&RecvRequest { wr_id, sges });
        posted.expect("posted");
        let sge = self.a.region.slice(0, 16).expect("in range");
        let sges = &[sge];
        let send = SendRequest::new(wr_id, SendOp::Send, sges);
        self.from.post_send(&send).expect("posted");
    }

    /// Waits until the peer has acknowledged the message. Its receive has then completed.
    fn wait_until_sent(&self) {
        let sent = self.a.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(sent.expect("sent").status, WcStatus::Success);
    }

    fn expect_completion(&self, wr_id: u64) {
        let completion = self.cq.poll().expect("no overrun").expect("a completion");
        assert_eq!(completion.wr_id, wr_id);
    }

    fn wait_for_event(&self) {
        let event = self.channel.wait(TIMEOUT).expect("waited");
        assert_eq!(event, Some(self.cq.id()));
    }
}

#[test]
fn a_channel_wakes_a_waiting_thread() {
    let ends = event_pair();
    for i in 0..50 {
        ends.cq.request_notify(Notify::Next);
        ends.send(i);
        ends.wait_for_event();
        ends.expect_completion(i);
        ends.wait_until_sent();
    }
}

/// Three completions share one event. If fewer arrive, the event is delivered at the end of its
/// period, or when moderation is switched off.
#[test]
fn a_moderated_event_waits_for_more_completions() {
    const NEVER: Duration = Duration::from_secs(1 << 20);
    let ends = event_pair();
    ends.cq.moderate(3, NEVER);
    for round in 0..2 {
        ends.cq.request_notify(Notify::Next);
        for i in 0..3 {
            assert_eq!(ends.channel.poll(), None, "{round}, {i}");
            ends.send(i);
            ends.wait_until_sent();
        }
        ends.wait_for_event();
        (0..3).for_each(|i| ends.expect_completion(i));
    }
    ends.cq.moderate(3, Duration::from_millis(1));
    ends.cq.request_notify(Notify::Next);
    ends.send(7);
    ends.wait_for_event();
    ends.expect_completion(7);
    ends.wait_until_sent();
    ends.cq.moderate(3, NEVER);
    ends.cq.request_notify(Notify::Next);
    ends.send(8);
    ends.wait_until_sent();
    assert_eq!(ends.channel.poll(), None);
    ends.cq.moderate(0, NEVER);
    assert_eq!(ends.channel.poll(), Some(ends.cq.id()));
    ends.expect_completion(8);
}

/// A thread that waits although the queue has completions would wait for ever.
#[test]
fn an_event_of_completions_that_were_there_before_is_missed_once() {
    let ends = event_pair();
    ends.cq.request_notify_or_miss(Notify::Next);
    assert_eq!(
        ends.channel.take_missed_event(),
        None,
        "the queue is empty: the next completion raises the event"
    );
    ends.send(1);
    ends.wait_until_sent();
    ends.wait_for_event();
    ends.cq.request_notify_or_miss(Notify::Next);
    assert_eq!(ends.channel.poll(), None);
    assert_eq!(ends.channel.take_missed_event(), Some(ends.cq.id()));
    assert_eq!(ends.channel.take_missed_event(), None);
    ends.cq.request_notify_or_miss(Notify::Next);
    ends.expect_completion(1);
    assert_eq!(
        ends.channel.take_missed_event(),
        None,
        "the program has polled"
    );
}

//! Violations that the oracle must detect with shared receives or lost messages.

use super::tests::objects;
use super::*;
use roce_stack::{Buffer, DatagramSource, NetworkHeader, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

const LEN: usize = 256;

struct Fixture {
    oracle: Oracle,
    /// The receives.
    inbox: Arc<Buffer>,
    /// What side 0 WRITEs to.
    target: Arc<Buffer>,
}

fn buffer() -> Arc<Buffer> {
    Arc::new(Buffer::new(LEN).expect("a buffer"))
}

/// Pairs whose side 1 receives from pool 0, and whose side 0 sends.
fn fixture(kinds: &[QpKind], shared: bool, causes: Causes) -> Fixture {
    let mut oracle = Oracle::new();
    let (inbox, target) = (buffer(), buffer());
    oracle.made_pool(0, Area::new(Arc::clone(&inbox)), shared);
    for (number, kind) in kinds.iter().enumerate() {
        let ends = Ends {
            kind: *kind,
            qpns: [8, 9],
            pools: [None, Some(0)],
            more: None,
        };
        let areas = || FlowAreas {
            out: Area::new(buffer()),
            target: Area::new(Arc::clone(&target)),
            inbox: Area::new(buffer()),
        };
        oracle.connected(number, ends, causes, [areas(), areas()]);
    }
    for wr_id in 0..4 {
        let at = 64 * wr_id as usize;
        oracle.posted_to_pool(0, wr_id, PostedRecv { at, len: 60 });
    }
    Fixture {
        oracle,
        inbox,
        target,
    }
}

fn lossless(kinds: &[QpKind], shared: bool) -> Fixture {
    fixture(kinds, shared, Causes::default())
}

fn send(effect: Effect, fails: bool) -> PostedSend {
    PostedSend {
        effect,
        lands_at: 0,
        signaled: false,
        fence: false,
        key: None,
        invalidates: None,
        fails,
        fails_locally: false,
        statuses: &[],
        pool: None,
        opcode: WcOpcode::Send,
        len: 16,
    }
}

impl Fixture {
    fn sends(&mut self, pair: usize, value: u8) {
        let bytes: Bytes = vec![value; 16].into();
        self.posts(pair, Effect::Send { bytes, imm: None }, false);
    }

    fn sends_naming(&mut self, value: u8, pool: usize) {
        let bytes: Bytes = vec![value; 16].into();
        let named = PostedSend {
            pool: Some(pool),
            ..send(Effect::Send { bytes, imm: None }, false)
        };
        self.oracle.posted_send(0, 0, named);
    }

    fn writes(&mut self, pair: usize, at: usize, value: u8, imm: Option<u32>) {
        let bytes: Bytes = vec![value; 16].into();
        self.posts(pair, Effect::Write { at, bytes, imm }, false);
    }

    fn posts(&mut self, pair: usize, effect: Effect, fails: bool) {
        let send = send(effect, fails);
        self.oracle.posted_send(pair, 0, send);
    }

    fn lands(&self, wr_id: u64, header: usize, value: u8, len: usize) {
        let at = 64 * wr_id as usize + header;
        self.inbox.write(at, &vec![value; len]).expect("in bounds");
    }

    fn done(&self, wr_id: u64) -> Completion {
        Completion {
            wr_id,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            byte_len: 16,
            qpn: Qpn::from_bits(9),
            imm: None,
            invalidated_rkey: None,
            source: None,
        }
    }

    fn completes(&mut self, pair: usize, wr_id: u64, change: impl Fn(&mut Completion)) -> Verdict {
        let mut done = self.done(wr_id);
        change(&mut done);
        self.oracle.completed(pair, 1, &done)
    }

    fn arrives(&mut self, pair: usize, wr_id: u64, value: u8) -> Verdict {
        self.lands(wr_id, 0, value, 16);
        self.completes(pair, wr_id, |_| {})
    }

    fn rest(&mut self) -> Verdict {
        self.oracle.at_rest(|_, _| Some((0, 0)))
    }
}

#[test]
fn messages_of_two_qps_in_one_queue() {
    let mut f = lossless(&[QpKind::Rc, QpKind::Uc], true);
    f.sends(0, 1);
    f.sends(1, 2);
    f.sends(0, 3);
    f.arrives(1, 1, 2).expect("right");
    f.arrives(0, 0, 1).expect("right");
    f.arrives(0, 2, 3).expect("right");
    f.rest().expect("right");
    f.oracle.pool_at_rest(0, Some((1, 0))).expect("right");
}

#[test]
fn a_receive_that_was_never_posted_or_completes_twice_or_out_of_order() {
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    f.sends(0, 1);
    objects(f.completes(0, 7, |_| {}), "not posted");
    f.arrives(0, 1, 1).expect("right");
    objects(f.arrives(0, 1, 1), "has completed");
    objects(f.arrives(0, 0, 1), "posted later");
    let mut f = lossless(&[QpKind::Uc], false);
    f.sends(0, 1);
    objects(f.arrives(0, 1, 1), "the oldest is Some(0)");
}

/// XRC: the request names one of two queues.
#[test]
fn a_receive_of_another_queue_than_was_named() {
    for named in [0, 1] {
        let mut f = lossless(&[QpKind::XrcInitiator], true);
        f.oracle.made_pool(1, Area::new(buffer()), true);
        f.sends_naming(1, named);
        f.lands(0, 0, 1, 16);
        let done = f.done(0);
        let verdict = f.oracle.completed_in(0, 1, Some(0), &done);
        match named {
            0 => verdict.expect("right"),
            _ => objects(verdict, "Some(1) was named"),
        }
    }
}

#[test]
fn bytes_in_a_shared_receive_that_nobody_sent() {
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    objects(f.arrives(0, 0, 2), "does not hold");
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    f.lands(0, 0, 1, 17);
    objects(f.completes(0, 0, |_| {}), "holds more");
    let mut f = lossless(&[QpKind::Rc], true);
    f.lands(0, 61, 1, 1);
    objects(f.oracle.pool_at_rest(0, Some((4, 0))), "byte 61");
}

#[test]
fn a_receive_that_is_nowhere_at_rest() {
    let mut f = lossless(&[QpKind::Rc], true);
    objects(
        f.oracle.pool_at_rest(0, Some((3, 0))),
        "4 have not completed",
    );
    f.oracle.destroyed(0, 1).expect("right");
    f.oracle
        .pool_at_rest(0, Some((3, 0)))
        .expect("it may be with the QP that is gone");
    objects(
        f.oracle.pool_at_rest(0, Some((2, 0))),
        "4 have not completed",
    );
}

#[test]
fn events_of_limits_that_come_unasked_or_not_at_all() {
    let mut f = lossless(&[QpKind::Rc], true);
    objects(f.oracle.limit_reached(0), "nobody had set");
    f.oracle.armed(0, 5);
    objects(f.oracle.pool_at_rest(0, Some((4, 0))), "nobody was told");
    f.oracle.limit_reached(0).expect("right");
    objects(f.oracle.limit_reached(0), "nobody had set");
}

#[test]
fn the_last_receive_is_told_of_once_with_cause_and_is_the_last() {
    let mut f = lossless(&[QpKind::Rc], true);
    objects(f.oracle.last_wqe(0, 1), "without cause");
    f.sends(0, 1);
    f.oracle.broke(0, 1);
    f.oracle.last_wqe(0, 1).expect("right");
    objects(f.oracle.last_wqe(0, 1), "twice");
    objects(f.arrives(0, 0, 1), "no more receives");
}

#[test]
fn a_message_twice_or_out_of_order_or_of_another_length() {
    let two = |causes| {
        let mut f = fixture(&[QpKind::Uc], false, causes);
        f.sends(0, 1);
        f.sends(0, 2);
        f
    };
    let mut f = two(Causes::default());
    f.arrives(0, 0, 1).expect("right");
    objects(f.arrives(0, 1, 1), "from number 1 on");
    let mut f = two(Causes::default());
    f.arrives(0, 0, 2).expect("the first may be late or lost");
    objects(f.arrives(0, 1, 1), "from number 2 on");
    let mut f = two(Causes {
        doubles: true,
        ..Causes::default()
    });
    f.arrives(0, 0, 1).expect("right");
    f.arrives(0, 1, 1).expect("the network doubled it");
    let mut f = two(Causes {
        overtakes: true,
        ..Causes::default()
    });
    f.arrives(0, 0, 2).expect("right");
    f.arrives(0, 1, 1).expect("it was overtaken");
    objects(f.arrives(0, 2, 1), "from number 0 on");
    let mut f = two(Causes::default());
    f.lands(0, 0, 1, 16);
    objects(f.completes(0, 0, |done| done.byte_len = 15), "like that");
}

#[test]
fn a_broken_message() {
    let mut f = fixture(
        &[QpKind::Uc],
        false,
        Causes {
            lossy: true,
            ..Causes::default()
        },
    );
    f.sends(0, 1);
    f.lands(0, 0, 1, 15);
    objects(f.completes(0, 0, |_| {}), "like that");
}

#[test]
fn a_message_that_is_lost_where_nothing_is() {
    for lossy in [false, true] {
        let causes = Causes {
            lossy,
            ..Causes::default()
        };
        let mut f = fixture(&[QpKind::Uc], false, causes);
        f.sends(0, 1);
        match lossy {
            true => f.rest().expect("it may be lost"),
            false => objects(f.rest(), "request 0 can't be lost"),
        }
    }
    let mut f = lossless(&[QpKind::Uc], false);
    f.writes(0, 32, 1, None);
    objects(f.rest(), "target: byte 32");
    // Of two equal messages, it is unknown which was lost.
    let mut f = lossless(&[QpKind::Uc], false);
    for _ in 0..5 {
        let bytes: Bytes = Vec::new().into();
        f.posts(0, Effect::Send { bytes, imm: None }, false);
    }
    f.rest().expect("which of them came is not known");
}

#[test]
fn a_write_whose_immediate_data_came_without_it() {
    let lossy = Causes {
        lossy: true,
        ..Causes::default()
    };
    for there in [false, true] {
        let mut f = fixture(&[QpKind::Uc], false, lossy);
        f.writes(0, 32, 1, None);
        f.writes(0, 32, 2, Some(7));
        f.target
            .write(32, &[2 - u8::from(!there); 16])
            .expect("in bounds");
        let verdict = f.completes(0, 0, |done| {
            done.opcode = WcOpcode::RecvRdmaWithImm;
            done.imm = Some(7);
        });
        match there {
            true => verdict.expect("right"),
            false => objects(verdict, "byte 32 is 0x01, which is older"),
        }
    }
}

#[test]
fn a_datagram_with_another_key_or_from_another_sender() {
    let from = |qpn| {
        move |done: &mut Completion| {
            done.byte_len = 56;
            done.source = Some(DatagramSource {
                qpn: Qpn::from_bits(qpn),
                pkey_index: 0,
                grh: true,
                network: NetworkHeader::Ipv4,
            });
        }
    };
    let mut f = lossless(&[QpKind::Ud], false);
    let bytes: Bytes = vec![1; 16].into();
    f.posts(0, Effect::Send { bytes, imm: None }, true);
    f.lands(0, 40, 1, 16);
    objects(f.completes(0, 0, from(8)), "like that");
    let mut f = lossless(&[QpKind::Ud], false);
    f.sends(0, 1);
    f.lands(0, 40, 1, 16);
    objects(f.completes(0, 0, from(5)), "come from Some(8)");
    let mut f = lossless(&[QpKind::Ud], false);
    f.sends(0, 1);
    f.lands(0, 40, 1, 16);
    f.completes(0, 0, from(8)).expect("right");
}

#[test]
fn a_failure_that_nobody_could_hear_of() {
    for status in [WcStatus::RetryExceeded, WcStatus::RemoteAccessError] {
        let mut f = fixture(
            &[QpKind::Uc],
            false,
            Causes {
                lossy: true,
                ..Causes::default()
            },
        );
        f.sends(0, 1);
        let done = Completion {
            wr_id: 0,
            status,
            opcode: WcOpcode::Send,
            byte_len: 16,
            qpn: Qpn::from_bits(8),
            imm: None,
            invalidated_rkey: None,
            source: None,
        };
        objects(f.oracle.completed(0, 0, &done), "has no cause");
    }
}

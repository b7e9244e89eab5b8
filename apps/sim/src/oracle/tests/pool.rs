//! Violations that the oracle must detect with shared receives or lost messages.

use super::assert_violation;
use crate::oracle::*;
use roce_stack::{Buffer, DatagramSource, NetworkHeader, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

const LEN: usize = 256;

struct Fixture {
    oracle: Oracle,
    /// The receives.
    inbox: Arc<Buffer>,
    /// The memory that side 0 WRITEs to.
    target: Arc<Buffer>,
}

fn buffer() -> Arc<Buffer> {
    Arc::new(Buffer::new(LEN).expect("a buffer"))
}

/// Pairs whose side 1 receives from pool 0, and whose side 0 sends.
fn fixture(kinds: &[QpKind], shared: bool, causes: Causes) -> Fixture {
    let mut oracle = Oracle::new();
    let (inbox, target) = (buffer(), buffer());
    oracle.pool_created(0, Area::new(Arc::clone(&inbox)), shared);
    for (number, kind) in kinds.iter().enumerate() {
        let ends = Ends {
            kind: *kind,
            qpns: [8, 9],
            pools: [None, Some(0)],
            second_pool: None,
            networks: [None; 2],
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
        denied: false,
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

    fn check_idle(&mut self) -> Verdict {
        self.oracle.check_idle(|_, _| Some((0, 0)))
    }
}

#[test]
fn messages_of_two_qps_in_one_queue_pass() {
    let mut f = lossless(&[QpKind::Rc, QpKind::Uc], true);
    f.sends(0, 1);
    f.sends(1, 2);
    f.sends(0, 3);
    f.arrives(1, 1, 2).expect("legal");
    f.arrives(0, 0, 1).expect("legal");
    f.arrives(0, 2, 3).expect("legal");
    f.check_idle().expect("legal");
    f.oracle.check_pool_idle(0, Some((1, 0))).expect("legal");
}

#[test]
fn a_receive_that_was_never_posted_or_completes_twice_or_out_of_order() {
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    f.sends(0, 1);
    assert_violation(f.completes(0, 7, |_| {}), "not posted");
    f.arrives(0, 1, 1).expect("legal");
    assert_violation(f.arrives(0, 1, 1), "has completed");
    assert_violation(f.arrives(0, 0, 1), "posted later");
    let mut f = lossless(&[QpKind::Uc], false);
    f.sends(0, 1);
    assert_violation(f.arrives(0, 1, 1), "the oldest is Some(0)");
}

/// XRC: the request names one of two queues.
#[test]
fn a_receive_of_another_queue_than_the_request_names() {
    for named in [0, 1] {
        let mut f = lossless(&[QpKind::XrcInitiator], true);
        f.oracle.pool_created(1, Area::new(buffer()), true);
        f.sends_naming(1, named);
        f.lands(0, 0, 1, 16);
        let done = f.done(0);
        let verdict = f.oracle.completed_in_pool(0, 1, Some(0), &done);
        match named {
            0 => verdict.expect("legal"),
            _ => assert_violation(verdict, "Some(1) was named"),
        }
    }
}

#[test]
fn bytes_in_a_shared_receive_that_were_not_sent() {
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    assert_violation(f.arrives(0, 0, 2), "does not hold");
    let mut f = lossless(&[QpKind::Rc], true);
    f.sends(0, 1);
    f.lands(0, 0, 1, 17);
    assert_violation(f.completes(0, 0, |_| {}), "holds more");
    let mut f = lossless(&[QpKind::Rc], true);
    f.lands(0, 61, 1, 1);
    assert_violation(f.oracle.check_pool_idle(0, Some((4, 0))), "byte 61");
}

#[test]
fn a_receive_that_is_missing_when_idle() {
    let mut f = lossless(&[QpKind::Rc], true);
    assert_violation(
        f.oracle.check_pool_idle(0, Some((3, 0))),
        "4 have not completed",
    );
    f.oracle.destroyed(0, 1).expect("legal");
    f.oracle
        .check_pool_idle(0, Some((3, 0)))
        .expect("it may be with the QP that is gone");
    assert_violation(
        f.oracle.check_pool_idle(0, Some((2, 0))),
        "4 have not completed",
    );
}

#[test]
fn a_limit_event_that_is_unrequested_or_missing() {
    let mut f = lossless(&[QpKind::Rc], true);
    assert_violation(f.oracle.limit_reached(0), "without a limit");
    f.oracle.limit_armed(0, 5);
    assert_violation(
        f.oracle.check_pool_idle(0, Some((4, 0))),
        "there was no event",
    );
    f.oracle.limit_reached(0).expect("legal");
    assert_violation(f.oracle.limit_reached(0), "without a limit");
}

#[test]
fn last_wqe_reached_without_cause_or_twice_or_before_a_receive() {
    let mut f = lossless(&[QpKind::Rc], true);
    assert_violation(f.oracle.last_wqe_reached(0, 1), "without cause");
    f.sends(0, 1);
    f.oracle.mark_may_be_broken(0, 1);
    f.oracle.last_wqe_reached(0, 1).expect("legal");
    assert_violation(f.oracle.last_wqe_reached(0, 1), "twice");
    assert_violation(f.arrives(0, 0, 1), "no more receives");
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
    f.arrives(0, 0, 1).expect("legal");
    assert_violation(f.arrives(0, 1, 1), "from number 1 on");
    let mut f = two(Causes::default());
    f.arrives(0, 0, 2).expect("the first may be late or lost");
    assert_violation(f.arrives(0, 1, 1), "from number 2 on");
    let mut f = two(Causes {
        duplicates: true,
        ..Causes::default()
    });
    f.arrives(0, 0, 1).expect("legal");
    f.arrives(0, 1, 1).expect("the network doubled it");
    let mut f = two(Causes {
        reorders: true,
        ..Causes::default()
    });
    f.arrives(0, 0, 2).expect("legal");
    f.arrives(0, 1, 1).expect("it was overtaken");
    assert_violation(f.arrives(0, 2, 1), "from number 0 on");
    let mut f = two(Causes::default());
    f.lands(0, 0, 1, 16);
    assert_violation(f.completes(0, 0, |done| done.byte_len = 15), "matches");
}

#[test]
fn an_incomplete_message() {
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
    assert_violation(f.completes(0, 0, |_| {}), "matches");
}

#[test]
fn a_message_that_is_lost_on_a_lossless_network() {
    for lossy in [false, true] {
        let causes = Causes {
            lossy,
            ..Causes::default()
        };
        let mut f = fixture(&[QpKind::Uc], false, causes);
        f.sends(0, 1);
        match lossy {
            true => f.check_idle().expect("it may be lost"),
            false => assert_violation(f.check_idle(), "request 0 can't be lost"),
        }
    }
    let mut f = lossless(&[QpKind::Uc], false);
    f.writes(0, 32, 1, None);
    assert_violation(f.check_idle(), "target: byte 32");
    // Of two equal messages, it is unknown which was lost.
    let mut f = lossless(&[QpKind::Uc], false);
    for _ in 0..5 {
        let bytes: Bytes = Vec::new().into();
        f.posts(0, Effect::Send { bytes, imm: None }, false);
    }
    f.check_idle().expect("which of them came is not known");
}

#[test]
fn immediate_data_that_arrives_without_the_bytes_of_its_write() {
    let lossy = Causes {
        lossy: true,
        ..Causes::default()
    };
    for is_placed in [false, true] {
        let mut f = fixture(&[QpKind::Uc], false, lossy);
        f.writes(0, 32, 1, None);
        f.writes(0, 32, 2, Some(7));
        f.target
            .write(32, &[2 - u8::from(!is_placed); 16])
            .expect("in bounds");
        let verdict = f.completes(0, 0, |done| {
            done.opcode = WcOpcode::RecvRdmaWithImm;
            done.imm = Some(7);
        });
        match is_placed {
            true => verdict.expect("legal"),
            false => assert_violation(verdict, "byte 32 is 0x01, which is older"),
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
    assert_violation(f.completes(0, 0, from(8)), "matches");
    let mut f = lossless(&[QpKind::Ud], false);
    f.sends(0, 1);
    f.lands(0, 40, 1, 16);
    assert_violation(f.completes(0, 0, from(5)), "come from QP 8");
    let mut f = lossless(&[QpKind::Ud], false);
    f.sends(0, 1);
    f.lands(0, 40, 1, 16);
    f.completes(0, 0, from(8)).expect("legal");
}

#[test]
fn a_remote_failure_on_an_unreliable_service() {
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
        assert_violation(f.oracle.completed(0, 0, &done), "has no cause");
    }
}

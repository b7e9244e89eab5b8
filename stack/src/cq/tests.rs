use super::*;
use crate::wr::{WcOpcode, WcStatus};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_wire::Qpn;

fn completion(wr_id: u64) -> Completion {
    Completion {
        wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Send,
        byte_len: 0,
        qpn: Qpn::from_bits(2),
        imm: None,
        invalidated_rkey: None,
        source: None,
    }
}

fn take(cq: &CompletionQueue) -> Vec<u64> {
    core::iter::from_fn(|| cq.poll().expect("no overrun"))
        .map(|done| done.wr_id)
        .collect()
}

#[test]
fn resizing_keeps_what_is_there() {
    let cq = CompletionQueue::new(CqId(1), 8);
    for wr_id in 0..6 {
        cq.push(completion(wr_id), Instant::ZERO, false, None);
    }
    let refused = CqResizeError {
        capacity: 5,
        held: 6,
    };
    assert_eq!(cq.resize(5), Err(refused));
    assert_eq!(cq.capacity(), 8, "unchanged");
    let text = refused.to_string();
    assert!(text.contains('5') && text.contains('6'), "{text}");
    assert_eq!(cq.resize(6), Ok(()));
    assert_eq!(cq.capacity(), 6);
    assert_eq!(take(&cq), [0, 1, 2, 3, 4, 5]);
    assert_eq!(cq.resize(0), Ok(()), "0 counts as 1, as in new");
    assert_eq!(cq.capacity(), 1);
    cq.push(completion(7), Instant::ZERO, false, None);
    assert_eq!(cq.resize(100), Ok(()));
    for wr_id in 8..107 {
        assert_eq!(
            cq.push(completion(wr_id), Instant::ZERO, false, None),
            Pushed::Quiet
        );
    }
    assert_eq!(take(&cq), (7..107).collect::<Vec<_>>());
}

#[test]
fn a_request_for_an_event_outlives_resizing() {
    let cq = CompletionQueue::new(CqId(1), 2);
    cq.request_notify(Notify::Next);
    cq.resize(9).expect("empty");
    assert_eq!(
        cq.push(completion(1), Instant::ZERO, false, None),
        Pushed::Notify
    );
}

/// A request raises one event, at the next completion or late.
#[test]
fn a_request_is_taken_late_where_completions_are_left() {
    let cq = CompletionQueue::new(CqId(1), 4);
    cq.push(completion(1), Instant::ZERO, false, None);
    assert!(!cq.take_missed_event(), "no event was requested");
    cq.request_notify(Notify::Solicited);
    assert!(
        !cq.take_missed_event(),
        "for those alone that are solicited"
    );
    cq.request_notify(Notify::Next);
    assert!(cq.take_missed_event());
    assert!(!cq.take_missed_event(), "once");
    assert_eq!(
        cq.push(completion(2), Instant::ZERO, true, None),
        Pushed::Quiet
    );
    cq.request_notify(Notify::Next);
    assert_eq!(take(&cq), [1, 2]);
    assert!(!cq.take_missed_event(), "the queue is empty");
    assert_eq!(
        cq.push(completion(3), Instant::ZERO, false, None),
        Pushed::Notify
    );
    assert!(!cq.take_missed_event(), "it was raised in time");
}

#[test]
fn an_overrun_is_for_good() {
    let cq = CompletionQueue::new(CqId(1), 1);
    cq.push(completion(1), Instant::ZERO, false, None);
    let overrun = cq.push(completion(2), Instant::ZERO, false, None);
    assert_eq!(overrun, Pushed::Overrun { first: true });
    cq.resize(4).expect("larger");
    assert_eq!(cq.poll().expect("still there").map(|c| c.wr_id), Some(1));
    assert_eq!(cq.poll(), Err(CqOverrun { capacity: 4 }));
}

/// One thread fills and resizes at random while another polls: no completion is lost, duplicated or
/// out of order.
#[test]
fn resizing_while_others_poll() {
    const TOTAL: u64 = 2_000;
    let cq = CompletionQueue::new(CqId(1), 4);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    std::thread::scope(|scope| {
        let poller = scope.spawn(|| {
            let mut next = 0;
            while next < TOTAL {
                if let Some(done) = cq.poll().expect("no overrun") {
                    assert_eq!(done.wr_id, next);
                    next += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < TOTAL && !poller.is_finished() {
            if rng.next_u32() % 8 == 0 {
                // Refused while the queue holds too many: that is fine, too.
                let _ = cq.resize(1 + rng.next_u32() as usize % 16);
            } else if cq.ring().len() < cq.capacity() {
                cq.push(completion(next), Instant::ZERO, false, None);
                next += 1;
            } else {
                std::thread::yield_now();
            }
        }
    });
    assert!(cq.is_empty());
}

/// Rings wrap round; remaining completions stay in order wherever in the ring they were.
// shows: 10.3.1-reset-completions
#[test]
fn what_waits_of_one_qp_is_forgotten() {
    let of = |wr_id, qpn| Completion {
        qpn: Qpn::from_bits(qpn),
        ..completion(wr_id)
    };
    let cq = CompletionQueue::new(CqId(1), 5);
    for taken in 0..7 {
        for (wr_id, qpn) in [(1, 2), (2, 3), (3, 2), (4, 4), (5, 3)] {
            assert_eq!(
                cq.push(of(wr_id, qpn), Instant::ZERO, false, None),
                Pushed::Quiet
            );
        }
        cq.forget(Qpn::from_bits(9));
        cq.forget(Qpn::from_bits(3));
        assert_eq!(take(&cq), [1, 3, 4]);
        for wr_id in 0..taken {
            cq.push(completion(wr_id), Instant::ZERO, false, None);
            cq.poll().expect("no overrun");
        }
    }
}

/// Each completion keeps its time when the ring is replaced.
#[test]
fn completions_are_stamped() {
    let cq = CompletionQueue::new(CqId(1), 4);
    for at in [5, 7, 7] {
        cq.push(completion(at), Instant::from_nanos(at), false, None);
    }
    cq.resize(9).expect("larger");
    let taken = core::iter::from_fn(|| cq.poll_stamped().expect("no overrun"));
    let stamps: Vec<_> = taken
        .map(|(done, at)| (done.wr_id, at.as_nanos()))
        .collect();
    assert_eq!(stamps, [(5, 5), (7, 7), (7, 7)]);
}

/// Counted from the one that raised an event; before the first event, none is.
#[test]
fn completions_are_counted_from_an_event_on() {
    let cq = CompletionQueue::new(CqId(1), 16);
    let push = || cq.push(completion(0), Instant::ZERO, false, None);
    push();
    assert_eq!(cq.completions_since_event(), 0);
    for _ in 0..2 {
        cq.request_notify(Notify::Next);
        assert_eq!((push(), cq.completions_since_event()), (Pushed::Notify, 1));
        assert_eq!((push(), cq.completions_since_event()), (Pushed::Quiet, 2));
        take(&cq);
        assert_eq!((push(), cq.completions_since_event()), (Pushed::Quiet, 3));
    }
}

/// An empty queue is detected without access to the ring: the count is always that of the ring.
#[test]
fn what_waits_is_counted() {
    let cq = CompletionQueue::new(CqId(1), 3);
    let of = |wr_id, qpn| Completion {
        qpn: Qpn::from_bits(qpn),
        ..completion(wr_id)
    };
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    for wr_id in 0..4_000 {
        let (what, qpn) = (rng.next_u32() % 16, rng.next_u32() % 4);
        match what {
            0 => cq.forget(Qpn::from_bits(qpn)),
            1 => drop(cq.resize(1 + rng.next_u32() as usize % 8)),
            2..8 => drop(cq.poll()),
            _ => drop(cq.push(of(wr_id, qpn), Instant::ZERO, false, None)),
        }
        assert_eq!(cq.waiting.load(Ordering::Relaxed), cq.ring().len());
    }
    assert!(cq.overrun.load(Ordering::Relaxed), "that happened, too");
}

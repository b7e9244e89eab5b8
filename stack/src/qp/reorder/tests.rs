use super::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_wire::{Opcode, Psn, Qpn};
use std::collections::BTreeMap;

const NOW: Instant = Instant::from_nanos(5);

/// A moment when packets that were kept at [`NOW`] have expired.
const LATE: Instant = Instant::from_nanos(3_000_000_000);

fn packet(payload: &[u8]) -> Packet<'_> {
    Packet {
        bth: Bth::new(Opcode::RC_WRITE_MIDDLE, Qpn::from_bits(7), Psn::new(0)),
        ext: ExtHeaders::NONE,
        payload,
        icrc: 0,
    }
}

/// The PSN that is due in these tests.
fn due() -> Seq {
    Seq::initial(Psn::new(5))
}

/// Keeps an empty packet `distance` PSNs after the one that is due.
fn keep(pool: &mut ReorderPool, now: Instant, queue: &mut ReorderQueue, distance: u64) -> Kept {
    let counters = &mut Counters::default();
    pool.keep(now, counters, queue, due(), due() + distance, &packet(&[]))
}

/// In any order of arrival, two queues in one pool hold the same as two maps.
#[test]
fn queues_are_like_ordered_maps() {
    for seed in 0..50 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |n: u32| u64::from(rng.next_u32() % n);
        let mut pool = ReorderPool::new(20);
        let mut queues = [ReorderQueue::default(), ReorderQueue::default()];
        let mut models = [BTreeMap::new(), BTreeMap::new()];
        for step in 0..500_u32 {
            let which = usize::from(below(2) == 0);
            let (queue, model) = (&mut queues[which], &mut models[which]);
            if below(3) == 0 {
                assert_eq!(
                    pool.first(queue),
                    model.keys().next().copied(),
                    "seed {seed}"
                );
                let taken = pool.take(NOW, queue);
                let bytes = taken
                    .as_ref()
                    .map(|packet| packet.as_packet().payload.to_vec());
                assert_eq!(
                    bytes,
                    model.pop_first().map(|(_, bytes)| bytes),
                    "seed {seed}"
                );
                if let Some(packet) = taken {
                    pool.give_back(packet);
                }
                continue;
            }
            let at = due() + below(30);
            let bytes = step.to_le_bytes().to_vec();
            let counters = &mut Counters::default();
            let kept = pool.keep(NOW, counters, queue, due(), at, &packet(&bytes));
            let free = 20 - models.iter().map(BTreeMap::len).sum::<usize>();
            let model = &mut models[which];
            let expected = match model.get(&at) {
                Some(_) => Kept::Duplicate,
                None if free == 0 => Kept::Dropped,
                None if model.len() >= GUARANTEED && model.len() + 2 > free => Kept::Dropped,
                None => Kept::Stored,
            };
            assert_eq!(kept, expected, "seed {seed}");
            if kept == Kept::Stored {
                model.insert(at, bytes);
            }
        }
        for (queue, model) in queues.iter_mut().zip(&models) {
            assert_eq!(pool.release(queue), model.len() as u64, "seed {seed}");
        }
        assert_eq!((pool.in_use, pool.free_queues.len()), (0, 2));
        assert!(pool.queues.len() == 2 && pool.buffers.len() <= 20);
    }
}

/// A packet that is too far ahead, or too long for any path MTU, is not kept.
#[test]
fn what_cannot_be_due_soon_is_not_kept() {
    let mut pool = ReorderPool::new(20);
    let mut queue = ReorderQueue::default();
    let far = SPAN as u64;
    assert_eq!(keep(&mut pool, NOW, &mut queue, far), Kept::Dropped);
    let long = vec![0; MAX_PAYLOAD + 1];
    let (counters, at) = (&mut Counters::default(), due() + 1);
    let kept = pool.keep(NOW, counters, &mut queue, due(), at, &packet(&long));
    assert_eq!(kept, Kept::Dropped);
    assert_eq!(pool.release(&mut queue), 0);
    assert_eq!(keep(&mut pool, NOW, &mut queue, far - 1), Kept::Stored);
}

/// A copy that does the same changes nothing; any other makes the kept packet disputed for good.
#[test]
fn a_copy_that_differs_is_a_dispute() {
    let mut pool = ReorderPool::new(20);
    let mut queue = ReorderQueue::default();
    let at = due() + 3;
    assert!(!pool.dispute(&queue, at, &packet(&[1])), "nothing is kept");
    keep(&mut pool, NOW, &mut queue, 3);
    assert!(!pool.dispute(&queue, at, &packet(&[])));
    assert!(!pool.dispute(&queue, at.next(), &packet(&[1])));
    assert!(pool.dispute(&queue, at, &packet(&[1])));
    assert!(!pool.dispute(&queue, at, &packet(&[])));
    let taken = pool.take(NOW, &mut queue).expect("it is kept");
    assert!(taken.is_disputed());
    pool.give_back(taken);
    // The next packet in the same buffer is not disputed.
    keep(&mut pool, NOW, &mut queue, 3);
    assert!(!pool.take(NOW, &mut queue).expect("kept").is_disputed());
}

/// A QP that is short of buffers gets those of a QP whose packets have expired, and only those.
#[test]
fn expired_packets_make_room() {
    let mut pool = ReorderPool::new(3);
    let mut queues = [const { ReorderQueue { ticket: None } }; 3];
    for (n, queue) in queues.iter_mut().enumerate() {
        assert_eq!(keep(&mut pool, NOW, queue, 1 + n as u64), Kept::Stored);
    }
    let [first, second, third] = &mut queues;
    assert_eq!(keep(&mut pool, NOW, third, 9), Kept::Dropped);
    // The second makes progress: it has executed one packet, and keeps another.
    let taken = pool.take(LATE, second).expect("kept");
    pool.give_back(taken);
    assert_eq!(keep(&mut pool, LATE, second, 5), Kept::Stored);
    assert!(pool.has_expired(LATE, first) && !pool.has_expired(LATE, second));
    let mut fourth = ReorderQueue::default();
    let kept = (0..3).filter(|n| keep(&mut pool, LATE, &mut fourth, 1 + n) == Kept::Stored);
    assert_eq!(kept.count(), 2);
    assert_eq!((pool.first(first), pool.first(third)), (None, None));
    assert_eq!(pool.first(second), Some(due() + 5));
    // The queue of the fourth is one that the first or the third had.
    assert_eq!((pool.release(first), pool.release(third)), (0, 0));
    assert_eq!((pool.release(second), pool.release(&mut fourth)), (1, 2));
    assert_eq!(pool.in_use, 0);
}

use super::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_wire::{Opcode, Psn, Qpn};
use std::collections::BTreeMap;

fn packet(payload: &[u8]) -> Packet<'_> {
    Packet {
        bth: Bth::new(Opcode::RC_WRITE_MIDDLE, Qpn::from_bits(7), Psn::new(0)),
        ext: ExtHeaders::NONE,
        payload,
        icrc: 0,
    }
}

/// In any order of arrival, two queues in one pool hold the same as two maps.
#[test]
fn chains_are_like_ordered_maps() {
    for seed in 0..50 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |n: u32| u64::from(rng.next_u32() % n);
        let mut pool = ReorderPool::new(20);
        let mut queues = [ReorderQueue::default(), ReorderQueue::default()];
        let mut models = [BTreeMap::new(), BTreeMap::new()];
        let due = Seq::initial(Psn::new(5));
        for step in 0..500_u32 {
            let which = usize::from(below(2) == 0);
            let (queue, model) = (&mut queues[which], &mut models[which]);
            if below(3) == 0 {
                assert_eq!(
                    pool.first(queue),
                    model.keys().next().copied(),
                    "seed {seed}"
                );
                let taken = pool.take(queue);
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
            let at = due + below(30);
            let bytes = step.to_le_bytes().to_vec();
            let kept = pool.keep(queue, due, at, &packet(&bytes));
            let held = models.iter().map(BTreeMap::len).sum::<usize>();
            let model = &mut models[which];
            let expected = match model.get(&at) {
                Some(_) => Kept::Duplicate,
                None if held == 20 => Kept::Dropped,
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
        assert!(pool.slots.len() <= 20 && pool.free.len() == pool.slots.len());
    }
}

/// A packet that is too far ahead, or too long for any path MTU, is not kept.
#[test]
fn what_cannot_be_due_soon_is_not_kept() {
    let mut pool = ReorderPool::new(20);
    let mut queue = ReorderQueue::default();
    let due = Seq::initial(Psn::new(5));
    let far = due + (REACH + 1);
    assert_eq!(pool.keep(&mut queue, due, far, &packet(&[])), Kept::Dropped);
    let long = vec![0; MAX_PAYLOAD + 1];
    assert_eq!(
        pool.keep(&mut queue, due, due + 1, &packet(&long)),
        Kept::Dropped
    );
    assert_eq!(pool.release(&mut queue), 0);
}

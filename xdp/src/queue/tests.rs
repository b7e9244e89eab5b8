use std::sync::atomic::Ordering;

use super::{MAX_PIECES, NoRoom, QueueConfig, QueueError, RingName, RxDrop};
use crate::double::{DoubleKernel, KernelSide, queue};
use crate::ring::{Descriptor, RingMemory};
use crate::umem::{Owner, Umem};

const CONFIG: QueueConfig = QueueConfig {
    rx_chunks: 32,
    tx_frames: 4,
    max_frame_bytes: 5000,
};
const MORE: u32 = Descriptor::CONTINUED;

type Queue = super::Queue<DoubleKernel>;

fn pair() -> (Queue, KernelSide) {
    queue(&CONFIG, None).expect("sound rings")
}

/// Lengths of the pieces of all frames that arrive.
fn receive(queue: &mut Queue) -> Vec<Vec<usize>> {
    let mut frames = Vec::new();
    let mut sink = |frame: super::Frame<'_>| frames.push(frame.pieces().map(<[u8]>::len).collect());
    while queue.receive(4, &mut sink).expect("sound rings") > 0 {}
    frames
}

/// All chunks are with the kernel or free, none is held.
fn nothing_is_held(queue: &Queue) {
    let chunks = queue.chunks();
    assert_eq!(
        chunks.of(Owner::Received) + chunks.of(Owner::Writing),
        0,
        "{chunks:?}"
    );
    assert_eq!(chunks.total(), CONFIG.chunks());
}

#[test]
fn frames_of_one_piece_and_of_several_arrive_and_their_chunks_go_back() {
    let (mut queue, mut kernel) = pair();
    assert_eq!(queue.chunks().of(Owner::Fill), 32);
    for _ in 0..50 {
        for (len, options) in [
            (60, 0),
            (3840, MORE),
            (342, 0),
            (3840, MORE),
            (3840, MORE),
            (1, 0),
        ] {
            let chunk = kernel.take_fill().expect("a chunk to fill");
            kernel.deliver(chunk + 256, len, options);
        }
        assert_eq!(
            receive(&mut queue),
            [vec![60], vec![3840, 342], vec![3840, 3840, 1]]
        );
    }
    assert_eq!(queue.chunks().of(Owner::Fill), 32);
    nothing_is_held(&queue);
    let counters = queue.counters();
    assert_eq!((counters.rx_frames, counters.rx_in_pieces), (150, 100));
    assert_eq!(counters.rx_bytes, 50 * (60 + 4182 + 7681));
}

#[test]
fn a_frame_whose_end_has_not_come_waits() {
    let (mut queue, mut kernel) = pair();
    let (first, second) = (
        kernel.take_fill().expect("a chunk"),
        kernel.take_fill().expect("a chunk"),
    );
    kernel.deliver(first + 256, 3840, MORE);
    assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new());
    assert_eq!(queue.chunks().of(Owner::Received), 1);
    kernel.deliver(second + 256, 100, 0);
    assert_eq!(receive(&mut queue), [vec![3840, 100]]);
    nothing_is_held(&queue);
}

#[test]
fn the_bytes_of_pieces_are_put_together() {
    let (mut queue, mut kernel) = pair();
    let chunks = [0; 2].map(|_: u8| kernel.take_fill().expect("a chunk"));
    for (chunk, byte) in chunks.into_iter().zip(1..) {
        queue
            .share
            .bytes_mut(chunk + 256, 4)
            .expect("its own")
            .fill(byte);
    }
    kernel.deliver(chunks[0] + 256, 3, MORE);
    kernel.deliver(chunks[1] + 256, 2, 0);
    let mut seen = 0;
    let mut sink = |frame: super::Frame<'_>| {
        assert_eq!(frame.contiguous(), None);
        assert_eq!(frame.copy_to(&mut [0; 9]), [1, 1, 1, 2, 2]);
        assert_eq!(
            frame.copy_to(&mut [0; 4]),
            [1, 1, 1, 2],
            "as far as there is room"
        );
        seen += 1;
    };
    assert_eq!(queue.receive(1, &mut sink).expect("sound rings"), 1);
    assert_eq!(seen, 1);
}

#[test]
fn a_budget_is_kept() {
    let (mut queue, mut kernel) = pair();
    for _ in 0..5 {
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + 256, 60, 0);
    }
    let taken = [2, 2, 2, 2].map(|budget| queue.receive(budget, &mut |_| {}).expect("sound rings"));
    assert_eq!(taken, [2, 2, 1, 0]);
}

#[test]
fn what_the_kernel_has_no_right_to_name_costs_the_frame() {
    let own = 4096; // where the share begins
    let cases = [
        (RxDrop::ForeignAddress, 0, 60),
        (RxDrop::ForeignAddress, u64::MAX, 60),
        (
            RxDrop::ForeignAddress,
            own + u64::from(CONFIG.chunks()) * 4096,
            60,
        ),
        // A chunk for frames to be sent.
        (RxDrop::ChunkNotOwned, own + 32 * 4096, 60),
    ];
    for (reason, address, len) in cases {
        let (mut queue, mut kernel) = pair();
        let good = kernel.take_fill().expect("a chunk");
        kernel.deliver(good + 256, 100, MORE);
        kernel.deliver(address, len, 0);
        assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new(), "{reason:?}");
        assert_eq!(
            (
                queue.counters().dropped(reason),
                queue.counters().dropped_in_all()
            ),
            (1, 1)
        );
        assert_eq!(
            queue.chunks().of(Owner::Fill),
            32,
            "the good piece's chunk went back"
        );
        let next = kernel.take_fill().expect("a chunk");
        kernel.deliver(next + 256, 7, 0);
        assert_eq!(receive(&mut queue), [[7]], "the next frame is whole");
    }
}

#[test]
fn a_chunk_named_twice_is_handed_out_once() {
    let (mut queue, mut kernel) = pair();
    let chunk = kernel.take_fill().expect("a chunk");
    kernel.deliver(chunk + 256, 100, MORE);
    kernel.deliver(chunk + 256, 100, 0);
    assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new());
    assert_eq!(queue.counters().dropped(RxDrop::ChunkNotOwned), 1);
    nothing_is_held(&queue);
}

#[test]
fn a_piece_that_leaves_its_chunk_is_dropped_and_its_chunk_kept() {
    for (offset, len) in [(256, 3841), (0, 4097), (4095, 2), (0, u32::MAX)] {
        let (mut queue, mut kernel) = pair();
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + offset, len, 0);
        assert_eq!(
            receive(&mut queue),
            Vec::<Vec<usize>>::new(),
            "{offset} {len}"
        );
        assert_eq!(queue.counters().dropped(RxDrop::PieceTooLong), 1);
        assert_eq!(queue.chunks().of(Owner::Fill), 32);
    }
}

#[test]
fn a_frame_of_too_many_pieces_is_dropped() {
    let (mut queue, mut kernel) = pair();
    for piece in 0..=MAX_PIECES {
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + 256, 1, if piece < MAX_PIECES { MORE } else { 0 });
    }
    assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new());
    assert_eq!(queue.counters().dropped(RxDrop::TooManyPieces), 1);
    assert_eq!(queue.chunks().of(Owner::Fill), 32);
}

#[test]
fn long_frames_leave_in_pieces() {
    let (mut queue, mut kernel) = pair();
    for len in [1, 4096, 4097, 5000] {
        let bytes = queue.reserve(len).expect("room");
        assert_eq!(bytes.len(), len);
        bytes.fill(len as u8);
        queue.commit().expect("sound rings");
        assert_eq!(kernel.take_tx(), None, "it leaves with `flush`");
        assert!(queue.flush().expect("sound rings"));
        let mut sent = 0;
        let mut next = None;
        while let Some(Descriptor {
            address,
            len: piece,
            options,
        }) = kernel.take_tx()
        {
            assert!(
                next.is_none_or(|next| next == address),
                "pieces lie beside each other"
            );
            sent += piece as usize;
            next = Some(address + u64::from(piece));
            assert_eq!(options & MORE != 0, sent < len);
            let bytes = queue.share.bytes(address, piece as usize).expect("its own");
            assert!(bytes.iter().all(|&byte| byte == len as u8));
            kernel.complete(address);
        }
        assert_eq!(sent, len);
        assert_eq!(queue.unsent(), 1);
        queue.flush().expect("sound rings");
        assert_eq!(queue.unsent(), 0);
    }
    nothing_is_held(&queue);
    assert_eq!(queue.chunks().of(Owner::Tx), 0);
    assert_eq!(
        (queue.counters().tx_frames, queue.counters().tx_completed),
        (4, 6)
    );
}

#[test]
fn room_is_bounded_and_comes_back_when_all_pieces_were_sent() {
    let (mut queue, mut kernel) = pair();
    for _ in 0..CONFIG.tx_frames {
        queue.reserve(5000).expect("room");
        queue.commit().expect("sound rings");
    }
    assert_eq!(queue.reserve(60), Err(NoRoom::Full));
    queue.flush().expect("sound rings");
    let pieces = [0; 2].map(|_: u8| kernel.take_tx().expect("a piece").address);
    kernel.complete(pieces[1]);
    assert_eq!(
        queue.reserve(60),
        Err(NoRoom::Full),
        "half of it is still being sent"
    );
    kernel.complete(pieces[0]);
    assert!(queue.reserve(60).is_ok(), "found without `flush`");
    assert_eq!(queue.reserve(0), Err(NoRoom::Length));
    assert_eq!(queue.reserve(5001), Err(NoRoom::Length));
    assert_eq!(queue.counters().tx_full, 2);
}

#[test]
fn a_frame_that_is_not_committed_is_forgotten() {
    let (mut queue, mut kernel) = pair();
    for _ in 0..10 {
        queue.reserve(5000).expect("room").fill(1);
        assert_eq!(queue.unsent(), 0);
    }
    assert_eq!(queue.chunks().of(Owner::Writing), 2);
    assert_eq!(queue.reserve(9000), Err(NoRoom::Length));
    assert!(queue.reserved().is_none());
    queue.commit().expect("nothing to do");
    queue.flush().expect("sound rings");
    assert_eq!(kernel.take_tx(), None);
    nothing_is_held(&queue);
}

#[test]
fn completions_of_what_is_not_being_sent_are_counted() {
    let (mut queue, mut kernel) = pair();
    queue.reserve(60).expect("room");
    queue.commit().expect("sound rings");
    queue.flush().expect("sound rings");
    let sent = kernel.take_tx().expect("the frame").address;
    // Another's, one that waits to be filled, one that is free; then the right one, twice.
    for address in [0, 4096, sent + 4096, sent, sent] {
        kernel.complete(address);
        queue.flush().expect("sound rings");
    }
    assert_eq!(
        (
            queue.counters().tx_bad_completions,
            queue.counters().tx_completed
        ),
        (4, 1)
    );
    assert_eq!(queue.unsent(), 0);
}

#[test]
fn the_kernel_is_woken_only_when_it_wants_to_be() {
    let (mut queue, kernel) = queue(&CONFIG, Some(3)).expect("sound rings");
    let woken = queue.kernel().clone();
    let commit_four = |queue: &mut Queue| {
        for _ in 0..4 {
            queue.reserve(5000).expect("room");
            queue.commit().expect("sound rings");
        }
    };
    commit_four(&mut queue);
    assert!(
        queue.flush().expect("sound rings"),
        "the kernel looks by itself"
    );
    assert_eq!(woken.tx_wakes(), 0);
    kernel.want_wakeup(true);
    assert!(queue.flush().expect("sound rings"));
    assert_eq!(woken.tx_wakes(), 3, "eight pieces, three at a time");
    assert!(queue.flush().expect("sound rings"));
    assert_eq!(woken.tx_wakes(), 3, "nothing waits");
    assert_eq!(woken.rx_wakes(), 0);
    queue.receive(1, &mut |_| {}).expect("sound rings");
    assert_eq!(woken.rx_wakes(), 1);
}

#[test]
fn what_the_kernel_does_not_take_waits() {
    let (mut queue, kernel) = queue(&CONFIG, Some(0)).expect("sound rings");
    kernel.want_wakeup(true);
    queue.reserve(60).expect("room");
    queue.commit().expect("sound rings");
    assert!(!queue.flush().expect("sound rings"));
    assert_eq!(queue.kernel().tx_wakes(), 1, "asked once, not for ever");
    queue.kernel().fail(libc::ENXIO);
    let error = queue.flush().expect_err("the interface is gone");
    assert!(
        matches!(
            error,
            QueueError::Wake {
                ring: RingName::Tx,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_ring_with_impossible_counters_ends_the_queue() {
    let far = |word: &std::sync::atomic::AtomicU32| {
        word.store(
            word.load(Ordering::Relaxed).wrapping_add(1000),
            Ordering::Relaxed,
        );
    };
    let is = |error: QueueError, expected| matches!(error, QueueError::Corrupt { ring, .. } if ring == expected);
    let (mut queue, kernel) = pair();
    far(kernel.rings.rx.producer());
    assert!(is(
        queue.receive(1, &mut |_| {}).expect_err("a corrupt ring"),
        RingName::Rx
    ));
    let (mut queue, kernel) = pair();
    far(kernel.rings.completion.producer());
    assert!(is(
        queue.flush().expect_err("a corrupt ring"),
        RingName::Completion
    ));
    let (mut queue, kernel) = pair();
    far(kernel.rings.tx.consumer());
    assert!(is(queue.flush().expect_err("a corrupt ring"), RingName::Tx));
    let (mut queue, mut kernel) = pair();
    let chunk = kernel.take_fill().expect("a chunk");
    kernel.deliver(chunk + 256, 60, 0);
    far(kernel.rings.fill.consumer());
    assert!(is(
        queue.receive(1, &mut |_| {}).expect_err("a corrupt ring"),
        RingName::Fill
    ));
}

#[test]
fn a_share_that_is_too_small_is_refused() {
    let (_, kernel) = pair();
    let share = Umem::new(64)
        .expect("memory")
        .cut(&[39])
        .expect("39 chunks")
        .remove(0);
    let error = super::Queue::new(DoubleKernel::default(), kernel.rings, share, &CONFIG)
        .expect_err("40 are needed");
    assert!(
        matches!(
            error,
            QueueError::Share {
                wanted: 40,
                there: 39
            }
        ),
        "{error}"
    );
}

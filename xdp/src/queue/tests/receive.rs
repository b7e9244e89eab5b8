use super::super::{Frame, MAX_PIECES, RxDrop};
use super::{CONFIG, MORE, assert_no_chunk_is_held, pair, receive};
use crate::umem::Owner;

#[test]
fn frames_are_delivered_and_their_chunks_return_to_the_kernel() {
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
    assert_no_chunk_is_held(&queue);
    let counters = queue.counters();
    assert_eq!((counters.rx_frames, counters.rx_in_pieces), (150, 100));
    assert_eq!(counters.rx_bytes, 50 * (60 + 4182 + 7681));
}

/// Up to an eighth of the 32 chunks stay free until more are free, or until no frame waits.
#[test]
fn chunks_return_in_batches_or_when_no_frame_waits() {
    let (mut queue, mut kernel) = pair();
    let mut receive_one = || {
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + 256, 60, 0);
        assert_eq!(queue.receive(1, &mut |_| {}).expect("sound rings"), 1);
        queue.chunks().of(Owner::Fill)
    };
    assert_eq!([(); 5].map(|()| receive_one()), [31, 30, 29, 32, 31]);
    assert_eq!(queue.receive(1, &mut |_| {}).expect("sound rings"), 0);
    assert_eq!(queue.chunks().of(Owner::Fill), 32);
    let seen = std::iter::from_fn(|| kernel.take_fill()).count();
    assert_eq!(
        seen, 32,
        "the kernel gets the chunks that the ledger says it has"
    );
}

#[test]
fn the_kernel_is_woken_on_request_with_and_without_new_chunks() {
    let (mut queue, mut kernel) = pair();
    kernel.want_wakeup(true);
    for wakeups in 1..=2 {
        assert_eq!(queue.receive(1, &mut |_| {}).expect("sound rings"), 0);
        assert_eq!(queue.counters().rx_wakeups, wakeups);
    }
    let chunk = kernel.take_fill().expect("a chunk");
    kernel.deliver(chunk + 256, 60, 0);
    assert_eq!(receive(&mut queue), [[60]]);
    assert_eq!(
        queue.counters().rx_wakeups,
        4,
        "with the frame, and with its chunk"
    );
    kernel.want_wakeup(false);
    let chunk = kernel.take_fill().expect("a chunk");
    kernel.deliver(chunk + 256, 60, 0);
    assert_eq!(receive(&mut queue), [[60]]);
    assert_eq!(queue.counters().rx_wakeups, 4);
}

#[test]
fn an_incomplete_frame_waits_for_its_last_piece() {
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
    assert_no_chunk_is_held(&queue);
}

#[test]
fn the_pieces_of_a_frame_are_joined() {
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
    let mut sink = |frame: Frame<'_>| {
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
fn receive_respects_the_budget() {
    let (mut queue, mut kernel) = pair();
    for _ in 0..5 {
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + 256, 60, 0);
    }
    let taken = [2, 2, 2, 2].map(|budget| queue.receive(budget, &mut |_| {}).expect("sound rings"));
    assert_eq!(taken, [2, 2, 1, 0]);
}

#[test]
fn invalid_addresses_drop_the_frame() {
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
fn a_chunk_returned_twice_is_delivered_once() {
    let (mut queue, mut kernel) = pair();
    let chunk = kernel.take_fill().expect("a chunk");
    kernel.deliver(chunk + 256, 100, MORE);
    kernel.deliver(chunk + 256, 100, 0);
    assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new());
    assert_eq!(queue.counters().dropped(RxDrop::ChunkNotOwned), 1);
    assert_no_chunk_is_held(&queue);
}

#[test]
fn a_piece_that_exceeds_its_chunk_is_dropped() {
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
fn a_frame_with_too_many_pieces_is_dropped() {
    let (mut queue, mut kernel) = pair();
    for piece in 0..=MAX_PIECES {
        let chunk = kernel.take_fill().expect("a chunk");
        kernel.deliver(chunk + 256, 1, if piece < MAX_PIECES { MORE } else { 0 });
    }
    assert_eq!(receive(&mut queue), Vec::<Vec<usize>>::new());
    assert_eq!(queue.counters().dropped(RxDrop::TooManyPieces), 1);
    assert_eq!(queue.chunks().of(Owner::Fill), 32);
}

use super::super::{NoRoom, QueueError, RingName};
use super::{CONFIG, MORE, Queue, assert_no_chunk_is_held, pair};
use crate::double::queue;
use crate::ring::Descriptor;
use crate::umem::Owner;

#[test]
fn long_frames_are_sent_in_pieces() {
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
    assert_no_chunk_is_held(&queue);
    assert_eq!(queue.chunks().of(Owner::Tx), 0);
    assert_eq!(
        (queue.counters().tx_frames, queue.counters().tx_completed),
        (4, 6)
    );
}

#[test]
fn a_slot_is_free_again_when_all_pieces_are_sent() {
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
fn a_frame_that_is_not_committed_is_dropped() {
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
    assert_no_chunk_is_held(&queue);
}

#[test]
fn a_held_frame_keeps_its_slot() {
    let (mut queue, mut kernel) = pair();
    assert!(queue.hold().is_none());
    queue.reserve(5000).expect("room").fill(1);
    let first = queue.hold().expect("a frame");
    queue.reserve(60).expect("room").fill(2);
    let second = queue.hold().expect("a frame");
    queue.reserve(60).expect("room").fill(3);
    queue.commit().expect("sound rings");
    assert_eq!(queue.chunks().of(Owner::Writing), 3);
    queue.drop_held(second);
    queue
        .commit_held(first, |frame| frame[0] = 9)
        .expect("sound rings");
    queue.flush().expect("sound rings");
    let lens = [0; 3].map(|_: u8| kernel.take_tx().expect("a piece"));
    assert_eq!(lens.map(|piece| piece.len), [60, 4096, 904]);
    assert_eq!(queue.share.bytes(lens[1].address, 2), Some(&[9, 1][..]));
    for piece in lens {
        kernel.complete(piece.address);
    }
    queue.flush().expect("sound rings");
    assert_eq!(
        (queue.unsent(), queue.chunks().of(Owner::Free)),
        (0, CONFIG.tx_chunks())
    );
}

#[test]
fn completions_of_chunks_that_are_not_being_sent_are_counted() {
    let (mut queue, mut kernel) = pair();
    queue.reserve(60).expect("room");
    queue.commit().expect("sound rings");
    queue.flush().expect("sound rings");
    let sent = kernel.take_tx().expect("the frame").address;
    // An address outside the share, a chunk in the fill ring, a free chunk; then the sent chunk,
    // twice.
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
fn the_kernel_is_woken_only_when_it_requests_it() {
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
fn frames_that_the_kernel_does_not_take_stay_queued() {
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

/// `send` sends a frame at once, with those before it. The next `flush` makes no other system call.
#[test]
fn flush_does_not_repeat_the_work_of_send() {
    let (mut queue, kernel) = queue(&CONFIG, Some(3)).expect("sound rings");
    kernel.want_wakeup(true);
    for _ in 0..2 {
        queue.reserve(60).expect("room");
        queue.commit().expect("sound rings");
    }
    assert_eq!(queue.send().expect("sound rings"), 0, "all were taken");
    assert_eq!(queue.kernel().tx_wakes(), 1);
    assert!(queue.flush().expect("sound rings"));
    assert_eq!(queue.send().expect("sound rings"), 0);
    assert_eq!(queue.kernel().tx_wakes(), 1);
    queue.kernel().fail(libc::ENXIO);
    queue.reserve(60).expect("room");
    queue.commit().expect("sound rings");
    let error = queue.send().expect_err("the interface is gone");
    assert!(matches!(error, QueueError::Wake { .. }), "{error}");
}

/// The next `flush` reports the error.
#[test]
fn send_leaves_untaken_frames_for_flush() {
    let (mut queue, kernel) = queue(&CONFIG, Some(0)).expect("sound rings");
    kernel.want_wakeup(true);
    queue.reserve(60).expect("room");
    queue.commit().expect("sound rings");
    assert_eq!(queue.send().expect("sound rings"), 1);
    queue.kernel().fail(libc::ENXIO);
    assert!(queue.send().is_err());
    assert!(queue.flush().is_err(), "still");
}

//! Tests a queue with a simulated kernel.

mod metadata;
mod receive;
mod transmit;

use std::sync::atomic::Ordering;

use super::{QueueConfig, QueueError, RingName};
use crate::double::{DoubleKernel, KernelSide, queue};
use crate::ring::{Descriptor, RingMemory};
use crate::umem::{Owner, Umem};

const CONFIG: QueueConfig = QueueConfig {
    rx_chunks: 32,
    tx_frames: 4,
    max_frame_bytes: 5000,
    tx_metadata: false,
};
const MORE: u32 = Descriptor::CONTINUED;

type Queue = super::Queue<DoubleKernel>;

fn pair() -> (Queue, KernelSide) {
    queue(&CONFIG, None).expect("sound rings")
}

/// Receives all frames that wait. Returns the lengths of their pieces.
fn receive(queue: &mut Queue) -> Vec<Vec<usize>> {
    let mut frames = Vec::new();
    let mut sink = |frame: super::Frame<'_>| frames.push(frame.pieces().map(<[u8]>::len).collect());
    while queue.receive(4, &mut sink).expect("sound rings") > 0 {}
    frames
}

/// Checks that all chunks are free or with the kernel.
fn assert_no_chunk_is_held(queue: &Queue) {
    let chunks = queue.chunks();
    assert_eq!(
        chunks.of(Owner::Received) + chunks.of(Owner::Writing),
        0,
        "{chunks:?}"
    );
    assert_eq!(chunks.total(), CONFIG.chunks());
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
    assert!(matches!(queue.receive(1, &mut |_| {}), Ok(1)));
    // Now the chunk returns to the kernel.
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

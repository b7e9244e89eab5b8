use super::super::{ChecksumAt, NoRoom, QueueConfig, TxMetadata};
use super::{Queue, pair};
use crate::double::{KernelSide, queue};
use crate::ring::Descriptor;
use crate::umem::{CHUNK_BYTES, Owner};

const CONFIG: QueueConfig = QueueConfig {
    rx_chunks: 32,
    tx_frames: 4,
    max_frame_bytes: CHUNK_BYTES - TxMetadata::LEN,
    tx_metadata: true,
};
const CHECKSUM: ChecksumAt = ChecksumAt {
    start: 0x1236,
    offset: 6,
};

fn with_metadata() -> (Queue, KernelSide) {
    queue(&CONFIG, None).expect("sound rings")
}

/// The bytes that the kernel reads in front of a frame (`struct xsk_tx_metadata`): 64 bits of
/// flags, the start of the covered bytes, and the offset of the checksum from there. The rest,
/// which newer kernels use for other requests, is zero.
fn metadata_of(queue: &Queue, frame: Descriptor) -> (u64, u16, u16) {
    let start = frame.address - TxMetadata::LEN as u64;
    assert_eq!(start % CHUNK_BYTES as u64, 0, "in the frame's own chunk");
    let bytes = queue.share.bytes(start, TxMetadata::LEN).expect("its own");
    let (flags, rest) = bytes.split_first_chunk().expect("32 bytes");
    let (&[a, b, c, d], rest) = rest.split_first_chunk().expect("24 bytes");
    assert!(rest.iter().all(|&byte| byte == 0), "{rest:?}");
    (
        u64::from_ne_bytes(*flags),
        u16::from_ne_bytes([a, b]),
        u16::from_ne_bytes([c, d]),
    )
}

#[test]
fn metadata_in_front_of_a_frame_requests_its_checksum() {
    let (mut queue, mut kernel) = with_metadata();
    for round in 0..6 {
        let at = ChecksumAt {
            start: 54 + round,
            ..CHECKSUM
        };
        let frame = queue.reserve_with(62 + usize::from(round), Some(at));
        frame.expect("room").fill(0xee);
        queue.commit().expect("sound rings");
        queue.flush().expect("sound rings");
        let sent = kernel.take_tx().expect("a frame");
        assert_eq!(
            (sent.len, sent.options),
            (62 + u32::from(round), Descriptor::METADATA)
        );
        assert_eq!(metadata_of(&queue, sent), (2, 54 + round, 6));
        let bytes = queue.share.bytes(sent.address, sent.len as usize);
        assert!(bytes.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0xee)));
        kernel.complete(sent.address);
        queue.flush().expect("sound rings");
        assert_eq!(queue.unsent(), 0);
    }
    assert_eq!(queue.counters().tx_checksums, 6);
    assert_eq!(queue.chunks().of(Owner::Free), CONFIG.tx_chunks());
}

/// The kernel accepts a frame only if it has headroom for metadata, even without a checksum.
#[test]
fn frames_without_a_checksum_have_headroom_and_no_flag() {
    let (mut queue, mut kernel) = with_metadata();
    for len in [1, CONFIG.max_frame_bytes] {
        queue.reserve(len).expect("room").fill(len as u8);
        queue.commit().expect("sound rings");
        queue.flush().expect("sound rings");
        let sent = kernel.take_tx().expect("a frame");
        assert_eq!((sent.len as usize, sent.options), (len, 0));
        assert_eq!(sent.address % CHUNK_BYTES as u64, TxMetadata::LEN as u64);
        assert_eq!(kernel.take_tx(), None, "one piece");
        kernel.complete(sent.address);
    }
    assert_eq!(queue.counters().tx_checksums, 0);
}

#[test]
fn a_held_frame_keeps_its_metadata() {
    let (mut queue, mut kernel) = with_metadata();
    let at = ChecksumAt {
        start: 54,
        ..CHECKSUM
    };
    queue.reserve_with(100, Some(at)).expect("room").fill(1);
    let asking = queue.hold().expect("a frame");
    queue.reserve(100).expect("room").fill(2);
    let plain = queue.hold().expect("a frame");
    queue
        .reserve_with(60, Some(ChecksumAt { start: 52, ..at }))
        .expect("room");
    for held in [asking, plain] {
        queue
            .commit_held(held, |frame| frame[0] = 9)
            .expect("sound rings");
    }
    queue.flush().expect("sound rings");
    let [asking, plain] = [0; 2].map(|_: u8| kernel.take_tx().expect("a frame"));
    assert_eq!((asking.options, plain.options), (Descriptor::METADATA, 0));
    assert_eq!(metadata_of(&queue, asking), (2, 54, 6));
    for (frame, first) in [(asking, [9, 1]), (plain, [9, 2])] {
        assert_eq!(queue.share.bytes(frame.address, 2), Some(&first[..]));
    }
}

#[test]
fn checksums_outside_the_frame_are_refused() {
    let (mut queue, _) = with_metadata();
    let asks = |queue: &mut Queue, len, start, offset| {
        let at = ChecksumAt { start, offset };
        queue.reserve_with(len, Some(at)).map(|frame| frame.len())
    };
    assert_eq!(asks(&mut queue, 62, 54, 6), Ok(62));
    assert_eq!(asks(&mut queue, 61, 54, 6), Err(NoRoom::Length));
    assert_eq!(asks(&mut queue, 62, 60, 1), Err(NoRoom::Length));
    assert_eq!(
        asks(&mut queue, 62, u16::MAX, u16::MAX),
        Err(NoRoom::Length)
    );
    let (mut without, _) = pair();
    assert_eq!(asks(&mut without, 62, 54, 6), Err(NoRoom::Length));
}

#[test]
fn only_frames_of_one_piece_have_metadata() {
    assert!(CONFIG.has_metadata());
    let longer = QueueConfig {
        max_frame_bytes: CONFIG.max_frame_bytes + 1,
        ..CONFIG
    };
    assert!(!longer.has_metadata());
    let unwanted = QueueConfig {
        tx_metadata: false,
        ..CONFIG
    };
    assert!(!unwanted.has_metadata());
    assert_eq!((CONFIG.tx_headroom(), longer.tx_headroom()), (32, 0));
}

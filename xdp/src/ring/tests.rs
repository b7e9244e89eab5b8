use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Consumer, Corrupt, Descriptor, Entry, HeapRing, Producer, RingMemory};

type Pair = (
    Arc<HeapRing<u64>>,
    Producer<Arc<HeapRing<u64>>>,
    Consumer<Arc<HeapRing<u64>>>,
);

fn ring(capacity: u32, start: u32) -> Pair {
    let memory = Arc::new(HeapRing::new(capacity, start));
    let producer = Producer::new(Arc::clone(&memory)).expect("a new ring");
    let consumer = Consumer::new(Arc::clone(&memory)).expect("a new ring");
    (memory, producer, consumer)
}

#[test]
fn entries_are_consumed_in_order_across_wraps() {
    // The counters wrap during the test.
    let (_, mut producer, mut consumer) = ring(4, u32::MAX - 5);
    let mut expected = 0;
    for base in 0..10 {
        for entry in 0..3 {
            assert_eq!(producer.push(base * 3 + entry), Ok(true));
        }
        assert_eq!(consumer.pop(), Ok(None), "not submitted yet");
        assert_eq!(producer.submit(), 3);
        assert_eq!(producer.submit(), 0);
        while let Some(entry) = consumer.pop().expect("a sound ring") {
            assert_eq!(entry, expected);
            expected += 1;
        }
        consumer.release();
    }
    assert_eq!(expected, 30);
}

#[test]
fn a_full_ring_accepts_no_entry_until_slots_are_released() {
    let (_, mut producer, mut consumer) = ring(2, 7);
    assert_eq!(producer.room(1), Ok(2));
    assert_eq!(
        (producer.push(1), producer.push(2), producer.push(3)),
        (Ok(true), Ok(true), Ok(false))
    );
    producer.submit();
    assert_eq!(producer.untaken(), Ok(2));
    assert_eq!(consumer.pop(), Ok(Some(1)));
    assert_eq!(
        producer.push(3),
        Ok(false),
        "read, but its slot is not released"
    );
    consumer.release();
    assert_eq!(producer.untaken(), Ok(1));
    assert_eq!(producer.push(3), Ok(true));
}

#[test]
fn a_capacity_is_rounded_up_to_a_power_of_two() {
    assert_eq!(HeapRing::<u64>::new(5, 0).capacity(), 8);
    assert_eq!(HeapRing::<Descriptor>::new(5, 0).capacity(), 8);
}

#[test]
fn a_consumer_rejects_impossible_counters() {
    // Two of four entries are read and not released, so the producer's counter can only be 2 to 4.
    for (lie, believed) in [
        (1, false),
        (2, true),
        (4, true),
        (5, false),
        (u32::MAX, false),
    ] {
        let (memory, mut producer, mut consumer) = ring(4, 0);
        for entry in 0..2 {
            assert_eq!(producer.push(entry), Ok(true));
        }
        producer.submit();
        assert_eq!((consumer.pop(), consumer.pop()), (Ok(Some(0)), Ok(Some(1))));
        memory.producer().store(lie, Ordering::Relaxed);
        let answer = consumer.pop();
        assert_eq!(answer.is_ok(), believed, "{lie}: {answer:?}");
    }
}

#[test]
fn a_producer_rejects_impossible_counters() {
    // Two of four entries are submitted, and one more is written, so the other side has consumed 0
    // to 2.
    for (lie, believed) in [
        (0, true),
        (2, true),
        (3, false),
        (4, false),
        (u32::MAX, false),
    ] {
        let (memory, mut producer, _) = ring(4, 0);
        assert_eq!((producer.push(0), producer.push(1)), (Ok(true), Ok(true)));
        producer.submit();
        assert_eq!(producer.push(2), Ok(true));
        memory.consumer().store(lie, Ordering::Relaxed);
        let answer = producer.room(4);
        assert_eq!(answer.is_ok(), believed, "{lie}: {answer:?}");
        assert_eq!(producer.untaken().is_ok(), believed);
    }
    let memory = Arc::new(HeapRing::<u64>::new(4, 0));
    memory.consumer().store(1, Ordering::Relaxed);
    let corrupt = Corrupt {
        producer: 0,
        consumer: 1,
        capacity: 4,
    };
    assert_eq!(Producer::new(Arc::clone(&memory)).err(), Some(corrupt));
    assert_eq!(Consumer::new(memory).err(), Some(corrupt));
    assert!(corrupt.to_string().contains("4 entries"));
}

#[test]
fn the_wakeup_flag_is_read() {
    let (memory, producer, consumer) = ring(2, 0);
    assert!(!producer.needs_wakeup() && !consumer.needs_wakeup());
    memory
        .flags()
        .store(libc::XDP_RING_NEED_WAKEUP | 8, Ordering::Relaxed);
    assert!(producer.needs_wakeup() && consumer.needs_wakeup());
    memory.flags().store(8, Ordering::Relaxed);
    assert!(!producer.needs_wakeup(), "another flag");
}

#[test]
fn descriptors_have_the_kernels_layout() {
    let descriptor = Descriptor {
        address: 0x1122_3344_5566_7788,
        len: 3840,
        options: Descriptor::CONTINUED,
    };
    assert!(descriptor.is_continued());
    let words = descriptor.to_words();
    assert_eq!(Descriptor::from_words(words), descriptor);
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    assert_eq!(bytes.len(), size_of::<libc::xdp_desc>());
    assert_eq!(bytes[8..12], 3840_u32.to_ne_bytes());
    assert_eq!(bytes[12..], 1_u32.to_ne_bytes());
}

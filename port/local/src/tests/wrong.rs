//! Values that no end writes.

use super::{attacked, ends, send, take};
use crate::hostile::Hostile;
use crate::mapping::RING_BYTES;
use crate::ring::{Label, MAX_PACKET_BYTES, NoRoom};

const RING: u64 = RING_BYTES as u64;

#[test]
fn a_tail_that_is_impossible_breaks_the_ring() {
    // The head is at 1,024.
    let beyond = 1024 + RING + 64;
    for tail in [
        0,
        960,
        1023,
        1025,
        1024 + 63,
        beyond,
        u64::MAX,
        1 << 63,
        1024 + (1 << 32),
    ] {
        let (mut sender, mut receiver, file) = ends();
        send(&mut sender, 1008, 1);
        assert_eq!(take(&mut receiver), (vec![1008], true));
        let hostile = Hostile::new(&file).expect("a ring");
        for position in (1024..RING).step_by(64) {
            hostile.write_record(position, 48, 1);
        }
        hostile.set_tail(tail);
        assert_eq!(take(&mut receiver), (vec![], false), "tail {tail}");
        assert_eq!(take(&mut receiver), (vec![], false), "tail {tail}, again");
    }
}

#[test]
fn a_record_that_is_impossible_breaks_the_ring() {
    let longest = MAX_PACKET_BYTES as u32;
    for (len, count) in [
        (0, 1),
        (longest + 1, 1),
        (u32::MAX, 1),
        (u32::MAX, u16::MAX),
        (48, 0),
        (0, 0),
        // Longer than what the tail says: 128 bytes.
        (113, 1),
        (16, 8),
        (1, 113),
        (longest, 1),
        (longest, u16::MAX),
        (1, u16::MAX),
    ] {
        let (mut receiver, hostile) = attacked();
        // The first record is in order.
        hostile.write_record(0, 16, 3);
        hostile.write_record(64, len, count);
        hostile.set_tail(192);
        let record = format!("{count} packets of {len} bytes");
        assert_eq!(take(&mut receiver), (vec![16; 3], false), "{record}");
        assert_eq!(take(&mut receiver), (vec![], false), "{record}, again");
    }
}

#[test]
fn the_longest_records_within_the_tail_are_taken() {
    for (len, count) in [(112, 1), (16, 7), (1, 112)] {
        let (mut receiver, hostile) = attacked();
        hostile.write_record(0, len, count);
        hostile.set_tail(128);
        let packets = vec![len as usize; count.into()];
        assert_eq!(take(&mut receiver), (packets, true));
    }
}

/// A device looks at other lanes between records, so none may be long.
#[test]
fn a_record_of_too_many_packets_breaks_the_ring() {
    for (len, count, is_legal) in [
        (1, 8192, true),
        (1, 8193, false),
        (1, u16::MAX, false),
        (4096, 2, true),
        (4096, 3, false),
        (8193, 1, true),
        (8193, 2, false),
    ] {
        let (mut receiver, hostile) = attacked();
        hostile.write_record(0, len, count);
        let bytes = 16 + u64::from(len) * u64::from(count);
        hostile.set_tail(bytes.next_multiple_of(64));
        let packets = if is_legal { count.into() } else { 0 };
        let expected = (vec![len as usize; packets], is_legal);
        assert_eq!(
            take(&mut receiver),
            expected,
            "{count} packets of {len} bytes"
        );
    }
}

/// A sender that finds a head ahead of its tail never writes.
#[test]
fn a_head_that_is_impossible_breaks_the_ring() {
    for head in [1 << 40, RING * 2, 1 << 63] {
        let (mut sender, _receiver, file) = ends();
        let hostile = Hostile::new(&file).expect("a ring");
        hostile.set_head(head);
        let mut sent = 0;
        let why = loop {
            match sender.reserve(Label::default(), 4000, 2) {
                Ok(()) => sent += sender.commit(),
                Err(why) => break why,
            }
        };
        assert_eq!(why, NoRoom::Broken, "head {head}");
        // It looks at the head when its own count says that the ring is full.
        assert_eq!(sent, RING_BYTES / 8064 * 2, "head {head}");
        let again = sender.reserve(Label::default(), 1, 1);
        assert_eq!(again, Err(NoRoom::Broken), "head {head}, again");
        assert_eq!((sender.room().len(), sender.commit()), (0, 0));
    }
}

#[test]
fn a_head_that_moves_back_makes_no_room() {
    let (mut sender, mut receiver, file) = ends();
    let hostile = Hostile::new(&file).expect("a ring");
    let mut room = vec![0; MAX_PACKET_BYTES];
    for _ in 0..200 {
        send(&mut sender, 9000, 1);
        assert_eq!(receiver.take(9, &mut room, |_, _, _| {}), Ok(1));
    }
    hostile.set_head(63);
    let why = loop {
        match sender.reserve(Label::default(), 9000, 1) {
            Ok(()) => sender.commit(),
            Err(why) => break why,
        };
    };
    assert_eq!(why, NoRoom::Broken);
}

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use roce_wire::Qpn;

use super::*;

const MAX: usize = 65_507;
const PART: Option<QpnRange> = Some(QpnRange::of(Qpn::QP0));

fn to(last: u8) -> TxMeta {
    TxMeta {
        src: IpAddr::from([127, 0, 0, 1]),
        dst: IpAddr::from([127, 0, 0, last]),
        traffic_class: 2,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    }
}

fn queue() -> TxQueue {
    TxQueue::new(1 << 18, 100, true)
}

/// A pool without blocks.
fn none() -> KeptBlocks {
    KeptBlocks::new(0)
}

fn reserve<'a>(
    queue: &'a mut TxQueue,
    to: &TxMeta,
    len: usize,
    max_datagram_bytes: usize,
) -> Option<(&'a mut [u8], IpCovered)> {
    let request = ReserveRequest {
        to,
        part: PART,
        len,
        count: 1,
        max_datagram_bytes,
        via: Via::ADDRESS_SOCKET,
        may_keep: false,
        begins_block: false,
    };
    // It has no blocks, so the returned space never borrows from it.
    let kept = Box::leak(Box::new(none()));
    let space = queue.reserve(&request, kept)?;
    assert!(!space.kept);
    Some((space.bytes, space.ip))
}

/// Queues a packet and returns its identification.
fn push(queue: &mut TxQueue, to: &TxMeta, len: usize) -> u16 {
    let (bytes, ip) = reserve(queue, to, len, MAX).expect("room");
    assert_eq!(bytes.len(), len);
    let IpCovered::V4 { id, flags_fragment } = ip else {
        panic!("an IPv4 packet has an identification, got {ip:?}");
    };
    assert_eq!(flags_fragment, 0x4000);
    queue.commit(&mut none());
    id
}

fn segments(queue: &TxQueue) -> Vec<(usize, usize)> {
    let sizes = |datagram: &Datagram| (datagram.segments, datagram.len);
    queue.iter().map(sizes).collect()
}

#[test]
fn equal_lengths_join_and_a_shorter_one_is_the_last() {
    let mut queue = queue();
    let lens = [1000, 1000, 1000, 20, 20, 1000];
    let ids: Vec<u16> = lens
        .iter()
        .map(|&len| push(&mut queue, &to(2), len))
        .collect();
    assert_eq!(ids, [0, 1, 2, 3, 0, 0]);
    assert_eq!(segments(&queue), [(4, 3020), (1, 20), (1, 1000)]);
    assert_eq!(queue.packets(), 6);
}

#[test]
fn a_longer_packet_begins_a_datagram() {
    let mut queue = queue();
    // WRITE FIRST is longer than WRITE MIDDLE by its RETH.
    let lens = [1056, 1040, 1040, 1040];
    let ids: Vec<u16> = lens
        .iter()
        .map(|&len| push(&mut queue, &to(2), len))
        .collect();
    assert_eq!(
        ids,
        [0, 1, 0, 1],
        "the second is the shorter last one of the first datagram"
    );
}

#[test]
fn another_destination_class_or_hop_limit_begins_a_datagram() {
    let mut queue = queue();
    let mut class = to(2);
    class.traffic_class = 0;
    let mut hops = class;
    hops.hop_limit = 9;
    for meta in [to(2), to(3), to(2), class, hops] {
        assert_eq!(push(&mut queue, &meta, 64), 0);
    }
    assert_eq!(push(&mut queue, &hops, 64), 1);
}

#[test]
fn segments_and_bytes_are_bounded() {
    let mut many = queue();
    let ids: Vec<u16> = (0..130).map(|_| push(&mut many, &to(2), 20)).collect();
    let expected: Vec<u16> = (0..64).chain(0..64).chain(0..2).collect();
    assert_eq!(ids, expected);

    let mut long = queue();
    let ids: Vec<u16> = (0..17).map(|_| push(&mut long, &to(2), 4112)).collect();
    assert_eq!(
        ids[14..],
        [14, 0, 1],
        "15 packets of 4112 bytes are 61680, 16 too many"
    );
}

#[test]
fn without_segmentation_every_packet_is_alone() {
    let mut queue = TxQueue::new(1 << 16, 100, false);
    for _ in 0..3 {
        assert_eq!(push(&mut queue, &to(2), 100), 0);
    }
    assert_eq!(segments(&queue), [(1, 100); 3]);
}

#[test]
fn ipv6_has_no_identification() {
    let mut queue = queue();
    let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let to = TxMeta {
        src: address,
        dst: address,
        ..to(1)
    };
    for _ in 0..2 {
        let (_, ip) = reserve(&mut queue, &to, 50, MAX).expect("room");
        assert_eq!(ip, IpCovered::V6);
        queue.commit(&mut none());
    }
    assert_eq!(segments(&queue), [(2, 100)]);
}

#[test]
fn a_reservation_that_is_not_committed_changes_nothing() {
    let mut queue = queue();
    push(&mut queue, &to(2), 500);
    // A commit would have closed the datagram, and begun another.
    reserve(&mut queue, &to(2), 10, MAX).expect("room");
    reserve(&mut queue, &to(3), 500, MAX).expect("room");
    assert_eq!(push(&mut queue, &to(2), 500), 1);
    queue.commit(&mut none());
    reserve(&mut queue, &to(2), 500, MAX).expect("room");
    queue.cancel_reservation();
    queue.commit(&mut none());
    assert_eq!(segments(&queue), [(2, 1000)]);
    // A failed reservation drops the previous one.
    reserve(&mut queue, &to(2), 500, MAX).expect("room");
    assert!(reserve(&mut queue, &to(2), 1 << 20, MAX).is_none());
    queue.commit(&mut none());
    assert_eq!(queue.packets(), 2);
}

#[test]
fn a_full_queue_still_accepts_packets_that_join_the_last_datagram() {
    let mut queue = TxQueue::new(1 << 16, 3, true);
    for last in 1..=3 {
        push(&mut queue, &to(last), 100);
    }
    assert!(reserve(&mut queue, &to(4), 100, MAX).is_none());
    assert_eq!(
        push(&mut queue, &to(3), 100),
        1,
        "a packet may still join the last datagram"
    );
    queue.pop();
    assert_eq!(push(&mut queue, &to(4), 100), 0);
}

#[test]
fn no_packet_joins_the_first_one_after_a_cut() {
    let mut queue = queue();
    for _ in 0..5 {
        push(&mut queue, &to(2), 300);
    }
    push(&mut queue, &to(3), 40);
    queue.cut_to_first();
    assert_eq!(segments(&queue), [(1, 300), (1, 40)]);
    assert_eq!(queue.packets(), 2);
    assert_eq!(queue.pop().map(|datagram| datagram.cut), Some(4));

    let mut alone = self::queue();
    for _ in 0..2 {
        push(&mut alone, &to(2), 300);
    }
    alone.cut_to_first();
    assert_eq!(
        push(&mut alone, &to(2), 300),
        0,
        "no packet joins a cut datagram"
    );
}

/// A generator good enough to shuffle tests (xorshift), so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("less than a usize")
    }
}

/// In any order of operations, the bytes that leave are those that were queued, in that order, and
/// each packet is at the position of its identification.
#[test]
fn the_ring_never_mixes_bytes() {
    for seed in 1..60 {
        let mut random = Random(seed);
        let mut queue = TxQueue::new(10_000, 1 + random.below(30), random.below(4) > 0);
        let mut model: VecDeque<(TxMeta, Vec<u8>, u16)> = VecDeque::new();
        let (mut full, mut wrapped) = (0, 0);
        for step in 0..3000_usize {
            let len = match random.below(4) {
                0 => 1 + random.below(2000),
                _ => 700,
            };
            if random.below(3) > 0 {
                let to = to(1 + (random.below(8) / 7) as u8);
                match reserve(&mut queue, &to, len, 5000) {
                    Some((bytes, IpCovered::V4 { id, .. })) => {
                        bytes.fill((step % 251) as u8);
                        if random.below(10) > 0 {
                            queue.commit(&mut none());
                            model.push_back((to, vec![(step % 251) as u8; len], id));
                        }
                    }
                    Some((_, other)) => panic!("seed {seed}: {other:?}"),
                    None => full += 1,
                }
            } else {
                check_oldest(&queue, &mut model, seed);
                queue.pop();
            }
            wrapped += usize::from(queue.arena.wraps());
            assert_eq!(queue.packets(), model.len(), "seed {seed}");
        }
        while !queue.is_empty() {
            check_oldest(&queue, &mut model, seed);
            queue.pop();
        }
        assert!(
            model.is_empty(),
            "seed {seed}: {} packets lost",
            model.len()
        );
        assert!(
            full + wrapped > 0,
            "seed {seed}: the arena's end was never met"
        );
    }
}

fn check_oldest(queue: &TxQueue, model: &mut VecDeque<(TxMeta, Vec<u8>, u16)>, seed: u64) {
    let Some(datagram) = queue.iter().next() else {
        return;
    };
    let kept = none();
    let bytes = queue.bytes(datagram, &kept);
    assert!(bytes.len() <= 5000 && datagram.segments <= MAX_SEGMENTS);
    for (index, packet) in bytes.chunks(datagram.segment).enumerate() {
        let (to, expected, id) = model.pop_front().expect("as many packets as went in");
        assert_eq!((to, usize::from(id)), (datagram.to, index), "seed {seed}");
        assert_eq!(packet, expected, "seed {seed}");
    }
}

/// Queues a packet for a flow's socket. Returns its identification and the result of the commit.
fn push_kept(
    queue: &mut TxQueue,
    kept: &mut KeptBlocks,
    len: usize,
    may_keep: bool,
) -> (u16, Committed) {
    let next_id = 65_530 + queue.iter().len() as u16;
    let request = ReserveRequest {
        to: &to(2),
        part: PART,
        len,
        count: 1,
        max_datagram_bytes: MAX,
        via: Via {
            flow: Some(3),
            next_id,
        },
        may_keep,
        begins_block: len >= 1024,
    };
    let space = queue.reserve(&request, kept).expect("room");
    space.bytes.fill(len as u8);
    let (is_kept, ip) = (space.kept, space.ip);
    let IpCovered::V4 { id, .. } = ip else {
        panic!("an IPv4 packet has an identification, got {ip:?}");
    };
    let committed = queue.commit(kept);
    assert_eq!(committed.block.is_some(), is_kept);
    (id, committed)
}

#[test]
fn packets_that_may_be_kept_lie_in_a_block_and_no_other_packet_joins_it() {
    let (mut queue, mut kept) = (queue(), KeptBlocks::new(2 << 16));
    let mut ids = Vec::new();
    let mut blocks = Vec::new();
    for (len, may_keep) in [
        (4112, true),
        (4112, true),
        (20, false),
        (4112, true),
        (4112, false),
        (4112, true),
        (4112, true),
    ] {
        let (id, committed) = push_kept(&mut queue, &mut kept, len, may_keep);
        ids.push(id);
        blocks.push(committed.block.is_some());
    }
    // Identifications count up over the end of their range, from datagram to datagram and within
    // one. There are only two blocks, so the last packets lie in the arena, where any packet may
    // join.
    assert_eq!(
        ids,
        [65_530, 65_531, 65_531, 65_532, 65_533, 65_534, 65_535]
    );
    assert_eq!(blocks, [true, true, false, true, false, false, false]);
    assert_eq!(
        segments(&queue),
        [(2, 8224), (1, 20), (1, 4112), (3, 12_336)]
    );
    let datagrams: Vec<Datagram> = queue.iter().copied().collect();
    for datagram in datagrams {
        assert_eq!(datagram.flow, Some(3));
        let byte = datagram.segment as u8;
        assert!(queue.bytes(&datagram, &kept).iter().all(|&b| b == byte));
        assert_eq!(queue.pop().map(|popped| popped.len), Some(datagram.len));
    }
}

#[test]
fn a_short_last_packet_joins_the_block_that_it_could_not_begin() {
    let (mut queue, mut kept) = (queue(), KeptBlocks::new(2 << 16));
    let blocks: Vec<bool> = [4112, 4112, 80, 80]
        .iter()
        .map(|&len| {
            push_kept(&mut queue, &mut kept, len, true)
                .1
                .block
                .is_some()
        })
        .collect();
    assert_eq!(blocks, [true, true, true, false]);
    assert_eq!(segments(&queue), [(3, 8304), (1, 80)]);
}

#[test]
fn sockets_do_not_share_a_datagram() {
    let mut queue = queue();
    push(&mut queue, &to(2), 100);
    let (_, committed) = push_kept(&mut queue, &mut none(), 100, false);
    assert_eq!(committed.begun, Some(3));
    push(&mut queue, &to(2), 100);
    assert_eq!(segments(&queue), [(1, 100); 3]);
}

/// Queues a run of packets. Returns its first identification and the number of packets that the
/// queue took.
fn push_run(queue: &mut TxQueue, kept: &mut KeptBlocks, len: usize, count: usize) -> (u16, usize) {
    let request = ReserveRequest {
        to: &to(2),
        part: PART,
        len,
        count,
        max_datagram_bytes: MAX,
        via: Via {
            flow: Some(3),
            next_id: 100,
        },
        may_keep: true,
        begins_block: true,
    };
    let space = queue.reserve(&request, kept).expect("room");
    space.bytes.fill(len as u8);
    let (packets, ip) = (space.bytes.len() / len, space.ip);
    assert_eq!(space.bytes.len(), packets * len, "whole packets");
    let IpCovered::V4 { id, .. } = ip else {
        panic!("an IPv4 packet has an identification, got {ip:?}");
    };
    queue.commit(kept);
    (id, packets)
}

#[test]
fn a_run_fills_the_datagram_and_no_more() {
    for blocks in [0, 4] {
        let (mut queue, mut kept) = (queue(), KeptBlocks::new(blocks << 16));
        assert_eq!(push_run(&mut queue, &mut kept, 1040, 1), (100, 1));
        // 62 packets of 1040 bytes are 64,480 bytes: 63 would be 13 too many.
        assert_eq!(push_run(&mut queue, &mut kept, 1040, 80), (101, 61));
        assert_eq!(push_run(&mut queue, &mut kept, 1040, 3), (100, 3));
        // A shorter packet is the last one of a datagram.
        assert_eq!(push_run(&mut queue, &mut kept, 1036, 5), (103, 1));
        assert_eq!(push_run(&mut queue, &mut kept, 1040, 100), (100, 62));
        assert_eq!(
            segments(&queue),
            [(62, 64_480), (4, 4156), (62, 64_480)],
            "{blocks} blocks"
        );
        assert_eq!(queue.packets(), 128);
        let all: Vec<Datagram> = queue.iter().copied().collect();
        assert_eq!(
            queue.bytes(&all[1], &kept),
            [vec![1040_u16 as u8; 3 * 1040], vec![1036_u16 as u8; 1036]].concat()
        );
    }
}

#[test]
fn a_run_of_short_packets_has_at_most_as_many_as_kernels_segment() {
    let (mut queue, mut kept) = (queue(), none());
    assert_eq!(push_run(&mut queue, &mut kept, 20, 100), (100, 64));
    assert_eq!(push_run(&mut queue, &mut kept, 20, 100), (100, 64));
    assert_eq!(segments(&queue), [(64, 1280); 2]);
}

#[test]
fn a_run_takes_what_the_arena_has_left() {
    let mut queue = TxQueue::new(10_000, 100, true);
    let mut kept = none();
    assert_eq!(push_run(&mut queue, &mut kept, 1000, 7), (100, 7));
    assert_eq!(push_run(&mut queue, &mut kept, 1000, 7), (107, 3));
    assert_eq!(segments(&queue), [(10, 10_000)]);
}

#[test]
fn a_run_is_one_packet_where_none_may_join() {
    let mut unsegmented = TxQueue::new(1 << 16, 100, false);
    assert_eq!(push_run(&mut unsegmented, &mut none(), 100, 7), (100, 1));
    let mut queue = queue();
    let request = ReserveRequest {
        to: &to(2),
        part: None,
        len: 100,
        count: 7,
        max_datagram_bytes: MAX,
        via: Via::ADDRESS_SOCKET,
        may_keep: false,
        begins_block: false,
    };
    let mut kept = none();
    let space = queue.reserve(&request, &mut kept).expect("room");
    assert_eq!(space.bytes.len(), 100, "management datagrams stay apart");
}

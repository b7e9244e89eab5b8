//! Each operation at each interesting size, and the destination of its bytes.

use roce_tests::ends::{End, Options, connect, pattern};
use roce_tests::lab::Lab;
use roce_tests::peer::{GidIndex, Operation};

use super::{GUARD, HERE, THERE, Watched, assert_success, both_ways, run};

#[test]
fn every_operation_at_every_size_over_ipv4_with_small_packets() {
    every_operation_at_every_size(GidIndex::Ip4, 1500, 1024);
}

#[test]
fn every_operation_at_every_size_over_ipv4_with_large_packets() {
    every_operation_at_every_size(GidIndex::Ip4, 9000, 4096);
}

#[test]
fn every_operation_at_every_size_over_ipv6_with_small_packets() {
    every_operation_at_every_size(GidIndex::LinkLocal6, 1500, 1024);
}

#[test]
fn every_operation_at_every_size_over_ipv6_with_large_packets() {
    every_operation_at_every_size(GidIndex::LinkLocal6, 9000, 4096);
}

fn every_operation_at_every_size(gid: GidIndex, link_mtu: u32, path_mtu: u32) {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_mtu(link_mtu).unwrap();
    let options = Options {
        gid,
        ..Options::default()
    };
    let (mut ours, mut theirs) = connect(&lab, &options);
    // It was not configured: both derived it from the link.
    assert_eq!(ours.qp.query().1.path_mtu.bytes(), path_mtu as usize);
    assert_eq!(theirs.peer.active_mtu(), path_mtu);
    both_ways(&mut ours, &mut theirs, |from, to| {
        let sizes = [0, 1, path_mtu - 1, path_mtu, path_mtu + 1, 256 << 10];
        for (round, size) in (0..).zip(sizes) {
            sends(from, to, size, round);
            writes(from, to, size, round);
            reads(from, to, size, round);
        }
        atomics(from, to);
    });
}

/// The immediate data of a round, with four different bytes, so that a wrong order shows.
fn immediate(round: u32) -> u32 {
    0x0102_0304 + (round << 24)
}

fn sends(from: &mut dyn End, to: &mut dyn End, size: u32, round: u32) {
    let imm = immediate(round);
    for (operation, expected) in [
        (Operation::Send, None),
        (Operation::SendImm { imm }, Some(imm)),
    ] {
        let bytes = pattern(size, round);
        from.write_memory(HERE, &bytes);
        let watched = Watched::new(to, THERE, size);
        // Larger than the message: the completion has the number of bytes that arrived.
        to.receive(9, &[(THERE, size + GUARD)]);
        assert_success(&run(from, operation, HERE, size), "SEND");
        let received = to.completion();
        assert_success(&received, "RECV");
        assert_eq!(
            (received.wr_id, received.byte_len, received.imm),
            (9, size, expected)
        );
        watched.assert_holds(to, &bytes);
    }
}

fn writes(from: &mut dyn End, to: &mut dyn End, size: u32, round: u32) {
    let (addr, rkey) = to.remote(THERE);
    let bytes = pattern(size, round + 100);
    from.write_memory(HERE, &bytes);
    let watched = Watched::new(to, THERE, size);
    let write = Operation::Write { addr, rkey };
    assert_success(&run(from, write, HERE, size), "RDMA_WRITE");
    watched.assert_holds(to, &bytes);

    let imm = immediate(round);
    let bytes = pattern(size, round + 200);
    from.write_memory(HERE, &bytes);
    let watched = Watched::new(to, THERE, size);
    // The receive's memory is not touched.
    let untouched = Watched::new(to, 512 << 10, 16);
    to.receive(11, &[(512 << 10, 16)]);
    let write = Operation::WriteImm { addr, rkey, imm };
    assert_success(&run(from, write, HERE, size), "RDMA_WRITE");
    let received = to.completion();
    assert_success(&received, "RECV_RDMA_WITH_IMM");
    assert_eq!(
        (received.wr_id, received.byte_len, received.imm),
        (11, size, Some(imm))
    );
    watched.assert_holds(to, &bytes);
    untouched.assert_holds(to, &[]);
}

fn reads(from: &mut dyn End, to: &mut dyn End, size: u32, round: u32) {
    let (addr, rkey) = to.remote(THERE);
    let bytes = pattern(size, round + 300);
    to.write_memory(THERE, &bytes);
    let watched = Watched::new(from, HERE, size);
    let read = Operation::Read { addr, rkey };
    assert_success(&run(from, read, HERE, size), "RDMA_READ");
    watched.assert_holds(from, &bytes);
}

fn atomics(from: &mut dyn End, to: &mut dyn End) {
    // Aligned on the target; the fetched value needs no alignment.
    const WORD: u32 = 256;
    let (addr, rkey) = to.remote(WORD);
    let old = 0x0102_0304_0506_0708_u64;
    let watched = Watched::new(to, WORD, 8);
    to.write_memory(WORD, &old.to_ne_bytes());

    // Wraps, as the sum of 64 bits does.
    let add = u64::MAX - 0x0f;
    let sum = old.wrapping_add(add);
    let fetch_add = Operation::FetchAdd { addr, rkey, add };
    assert_success(&run(from, fetch_add, HERE, 8), "FETCH_ADD");
    assert_eq!((from.word(HERE), to.word(WORD)), (old, sum));

    let swap = 0xf1f2_f3f4_f5f6_f7f8;
    for (compare, after) in [(old, sum), (sum, swap)] {
        let compare_swap = Operation::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        };
        assert_success(&run(from, compare_swap, HERE, 8), "COMP_SWAP");
        assert_eq!((from.word(HERE), to.word(WORD)), (sum, after));
    }
    watched.assert_holds(to, &swap.to_ne_bytes());
}

#[test]
fn scattered_memory_is_gathered_and_scattered_again() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let (mut ours, mut theirs) = connect(&lab, &Options::default());
    // Elements end inside packets, at their borders, and are empty.
    let lists: [&[(u32, u32)]; 2] = [
        &[(70_000, 1), (5, 1023), (9000, 1024), (20_001, 1500)],
        &[(3, 2047), (70_001, 0), (9001, 2), (30_000, 1499)],
    ];
    let total = 3548;
    both_ways(&mut ours, &mut theirs, |from, to| {
        for (round, list) in (0..).zip(lists) {
            let bytes = pattern(total, round);
            scatter(from, list, &bytes);
            let (addr, rkey) = to.remote(THERE);
            let watched = Watched::new(to, THERE, total);
            from.post(1, Operation::Write { addr, rkey }, list);
            assert_success(&from.completion(), "RDMA_WRITE");
            watched.assert_holds(to, &bytes);

            let bytes = pattern(total, round + 10);
            scatter(from, list, &bytes);
            let other = lists[1 - round as usize];
            scatter(to, other, &vec![0; total as usize]);
            to.receive(2, other);
            from.post(3, Operation::Send, list);
            assert_success(&from.completion(), "SEND");
            assert_eq!(to.completion().byte_len, total);
            assert!(gather(to, other) == bytes);

            let bytes = pattern(total, round + 20);
            to.write_memory(THERE, &bytes);
            from.post(4, Operation::Read { addr, rkey }, list);
            assert_success(&from.completion(), "RDMA_READ");
            assert!(gather(from, list) == bytes);
        }
    });
}

fn scatter(end: &mut dyn End, parts: &[(u32, u32)], mut bytes: &[u8]) {
    for &(offset, length) in parts {
        let (part, rest) = bytes.split_at(length as usize);
        end.write_memory(offset, part);
        bytes = rest;
    }
    assert!(bytes.is_empty());
}

fn gather(end: &mut dyn End, parts: &[(u32, u32)]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|&(offset, length)| end.read_memory(offset, length))
        .collect()
}

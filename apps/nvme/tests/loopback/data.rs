//! Data of many sizes through several queues.

use super::{LEN, Rig};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use roce_nvme::host::{Host, HostOptions, IoQueue, NamespaceInfo, discover};
use std::collections::HashMap;

const QUEUES: u16 = 4;
const BLOCK: usize = 512;
const MAX: usize = 1 << 20;

/// A generator whose seed is printed. `ROCE_SEED` sets the seed.
pub(crate) fn random() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(testkit::seed())
}

/// Cuts `len` bytes into pieces of 512 bytes to 1 MiB, small ones as often as large ones.
fn pieces(random: &mut ChaCha8Rng, len: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let shift = random.next_u32() % 12;
        let most = BLOCK << shift;
        let blocks = 1 + random.next_u32() as usize % (most / BLOCK);
        let piece = (blocks * BLOCK).min(len - at);
        pieces.push((at, piece));
        at += piece;
    }
    pieces
}

/// Writes or reads the pieces that fall to a queue, a few at a time.
fn each_piece(
    queue: &mut IoQueue,
    pieces: &[(usize, usize)],
    mut post: impl FnMut(&mut IoQueue, usize, (usize, usize)) -> roce_nvme::host::Tag,
    mut over: impl FnMut(usize, (usize, usize)),
) {
    const AT_ONCE: usize = 8;
    let mut free: Vec<usize> = (0..AT_ONCE).collect();
    let mut posted = HashMap::new();
    let mut left = pieces.iter().copied();
    loop {
        while let Some(&slot) = free.last()
            && let Some(piece) = left.next()
        {
            free.pop();
            posted.insert(post(queue, slot, piece), (slot, piece));
        }
        if posted.is_empty() {
            return;
        }
        let done = queue.wait().expect("the queue works");
        done.ok().expect("success");
        let (slot, piece) = posted.remove(&done.tag).expect("it was posted");
        over(slot, piece);
        free.push(slot);
    }
}

/// Calls `each` for each queue on a thread of its own, with its share of the pieces.
fn in_threads(
    host: &mut Host,
    pieces: &[(usize, usize)],
    each: impl Fn(&mut IoQueue, &[(usize, usize)]) + Sync,
) {
    let queues = host.queues();
    assert_eq!(queues.len(), usize::from(QUEUES));
    let share = pieces.len().div_ceil(queues.len());
    std::thread::scope(|scope| {
        for (queue, pieces) in queues.iter_mut().zip(pieces.chunks(share)) {
            let each = &each;
            scope.spawn(move || each(queue, pieces));
        }
    });
}

fn write_all(host: &mut Host, disk: &NamespaceInfo, pieces: &[(usize, usize)], bytes: &[u8]) {
    in_threads(host, pieces, |queue, pieces| {
        let buffer = queue.allocate(8 * MAX).expect("memory");
        each_piece(
            queue,
            pieces,
            |queue, slot, (at, len)| {
                let here = slot * MAX;
                buffer.write(here, &bytes[at..at + len]).expect("it fits");
                let posted = queue.write(disk, at as u64, &buffer, here..here + len);
                posted.expect("posted")
            },
            |_, _| {},
        );
    });
}

fn check_all(host: &mut Host, disk: &NamespaceInfo, pieces: &[(usize, usize)], bytes: &[u8]) {
    in_threads(host, pieces, |queue, pieces| {
        let buffer = queue.allocate(8 * MAX).expect("memory");
        let mut found = vec![0; MAX];
        each_piece(
            queue,
            pieces,
            |queue, slot, (at, len)| {
                let here = slot * MAX;
                let posted = queue.read(disk, at as u64, &buffer, here..here + len);
                posted.expect("posted")
            },
            |slot, (at, len)| {
                let found = &mut found[..len];
                buffer.read(slot * MAX, found).expect("it fits");
                assert!(found == &bytes[at..at + len], "{len} bytes at {at} differ");
            },
        );
    });
}

#[test]
fn what_is_written_in_pieces_is_read_in_others() {
    let rig = Rig::start();
    let mut host = rig.host(QUEUES);
    let mut random = random();
    let mut bytes = vec![0; LEN];
    random.fill_bytes(&mut bytes);
    let disks = host.namespaces().to_vec();
    assert_eq!(disks.len(), 2);
    for disk in &disks {
        assert_eq!((disk.len(), disk.block_len), (LEN as u64, 512));
        let written = pieces(&mut random, LEN);
        write_all(&mut host, disk, &written, &bytes);
        let read = pieces(&mut random, LEN);
        check_all(&mut host, disk, &read, &bytes);
    }
    assert!(
        !host.not_durable().is_empty(),
        "the file is not flushed yet"
    );
    for disk in &disks {
        let queue = &mut host.queues()[0];
        queue.flush(disk).expect("posted");
        queue.drain().expect("flushed");
    }
    assert_eq!(host.not_durable(), []);
    let file = std::fs::read(rig.file()).expect("it is there");
    assert!(file == bytes, "the file differs");
    host.shutdown().expect("shut down");
    rig.until_all_is_free();
    let done = rig.target().snapshot();
    assert_eq!(done.bytes_written, 2 * LEN as u64);
    assert_eq!(done.bytes_read, 2 * LEN as u64);
    assert_eq!(
        (done.errors, done.failed, done.refused),
        (0, 0, 0),
        "{done:?}"
    );
    assert_eq!(rig.target().take_failures(), [""; 0]);
}

#[test]
fn a_durable_write_needs_no_flush() {
    let rig = Rig::start();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    let queue = &mut host.queues()[0];
    let buffer = queue.allocate(2 * MAX).expect("memory");
    buffer.write(0, &[7; 2 * MAX]).expect("it fits");
    for len in [BLOCK, MAX] {
        let posted = queue.write_durable(&disk, MAX as u64, &buffer, 0..len);
        posted.expect("posted");
        queue.drain().expect("written");
    }
    assert_eq!(host.not_durable(), []);
    let file = std::fs::read(rig.file()).expect("it is there");
    assert!(file[MAX..2 * MAX].iter().all(|&byte| byte == 7));
}

/// There are more commands than memory for their data.
#[test]
fn commands_wait_for_memory() {
    let rig = Rig::start();
    let mut host = rig.host(1);
    let disk = host.namespaces()[0];
    let queue = &mut host.queues()[0];
    const AT_ONCE: usize = 32;
    let buffer = queue.allocate(AT_ONCE * MAX).expect("memory");
    for slot in 0..AT_ONCE {
        buffer
            .write(slot * MAX, &[slot as u8; MAX])
            .expect("it fits");
    }
    for slot in 0..AT_ONCE {
        let range = slot * MAX..(slot + 1) * MAX;
        let posted = queue.write(&disk, range.start as u64, &buffer, range);
        posted.expect("posted");
    }
    queue.drain().expect("written");
    let file = std::fs::read(rig.file()).expect("it is there");
    for (slot, found) in file.chunks(MAX).take(AT_ONCE).enumerate() {
        assert!(found.iter().all(|&byte| byte == slot as u8), "{slot}");
    }
    for slot in 0..AT_ONCE {
        let range = slot * MAX..(slot + 1) * MAX;
        let from = (AT_ONCE - 1 - slot) * MAX;
        let posted = queue.read(&disk, from as u64, &buffer, range);
        posted.expect("posted");
    }
    queue.drain().expect("read");
    for slot in 0..AT_ONCE {
        let mut found = vec![0; MAX];
        buffer.read(slot * MAX, &mut found).expect("it fits");
        let expected = (AT_ONCE - 1 - slot) as u8;
        assert!(found.iter().all(|&byte| byte == expected), "{slot}");
    }
}

#[test]
fn the_discovery_service_lists_the_subsystem() {
    let rig = Rig::start();
    let found = discover(rig.at, &HostOptions::default()).expect("there is one");
    let [entry] = &found[..] else {
        panic!("one entry, not {found:?}")
    };
    assert!(entry.is_rdma);
    assert_eq!(entry.subsystem, super::nqn().as_str());
    assert_eq!(entry.address, rig.at.ip().to_string());
    assert_eq!(entry.service, rig.at.port().to_string());
    rig.until_all_is_free();
}

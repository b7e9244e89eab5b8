//! Compares received with sent data. perftest 4.5, which Debian 12 has, compares no data: none of
//! its programs has an option for that. But it can take its buffer from a file (`--mmap`), and the
//! two files can be compared afterwards.
//!
//! perftest fills the buffer with random bytes at the start. The first half has a part for each QP,
//! which the QP sends from or reads into. The second half has a part for each QP, which the peer
//! sends to, writes to, or reads.

use std::fs::{self, File};
use std::path::Path;

use super::super::pair_for;
use super::super::place::{CommandLine, Place};
use super::run::PORT;

/// Bytes of a message: more than a page, so that all messages use the same place in the buffer, and
/// a multiple of a cache line, to which perftest rounds up SENDs.
const SIZE: usize = 313 * 64;

/// Bytes for headers in front of each datagram that UD receives.
const UD_ROOM: usize = 64;

/// The direction in which data moves, which determines the parts of the two files that must be
/// equal.
#[derive(Clone, Copy)]
enum Moved {
    /// From the first half of the sender to the second half of the receiver.
    Sent,
    /// From the second half of the responder to the first half of the reader.
    Read,
}

struct Files {
    /// The contents of the server's file and of the client's.
    bytes: [Vec<u8>; 2],
    qps: usize,
    size: usize,
}

impl Files {
    /// Runs `words`, with this number of QPs and this message size.
    fn of(place: &Place<'_>, words: &str, qps: usize, size: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["server", "client"].map(|name| folder.path().join(name));
        let bytes = (2 * qps * size.max(4096) + UD_ROOM) as u64;
        for path in &paths {
            let file = File::create(path).expect("a file");
            file.set_len(bytes).expect("room for it");
        }
        let option = |path: &Path| format!("--mmap={}", path.display());
        let words = CommandLine {
            words: format!("{words} -n 20 -d DEVICE -x GID -F"),
            role_args: [option(&paths[0]), option(&paths[1])],
            ..CommandLine::default()
        };
        place.run_command_line(&words, PORT);
        let bytes = paths.map(|path| fs::read(path).expect("it is still there"));
        Self { bytes, qps, size }
    }

    /// The bytes from `offset` on in the part of QP `qp`, in the first or second half, of the
    /// server (0) or the client (1).
    fn part(&self, role: usize, qp: usize, second: bool, offset: usize) -> &[u8] {
        let place = if second { self.qps + qp } else { qp };
        let start = place * self.size.max(4096) + offset;
        &self.bytes[role][start..start + self.size]
    }

    /// Whether the data that the client moved is the same at both ends.
    fn check(&self, moved: Moved, offset: usize, what: &str) {
        for qp in 0..self.qps {
            let here = self.part(1, qp, false, 0);
            let there = self.part(0, qp, true, offset);
            assert!(here == there, "{what}: other bytes at QP {qp}");
            // Without transfers they would differ, as the halves of one buffer do.
            let still = match moved {
                Moved::Sent => self.part(1, qp, true, 0),
                Moved::Read => self.part(0, qp, false, 0),
            };
            assert!(here != still, "{what}: no random bytes at QP {qp}");
        }
    }
}

/// Moves random bytes with each operation and service.
fn moves_bytes(place: &Place<'_>) {
    let runs = [
        ("ib_write_bw", Moved::Sent),
        ("ib_write_bw -c UC", Moved::Sent),
        ("ib_send_bw", Moved::Sent),
        ("ib_send_bw -c UC", Moved::Sent),
        ("ib_read_bw", Moved::Read),
    ];
    for (words, moved) in runs {
        // In one direction: the random bytes are the same at both ends if both start in the same
        // second.
        let words = format!("{words} -q 4 -s {SIZE}");
        Files::of(place, &words, 4, SIZE).check(moved, 0, &words);
    }
}

/// A UD message is one packet, so its size is a page: perftest puts shorter ones at other offsets.
fn moves_datagrams(place: &Place<'_>) {
    let words = "ib_send_bw -c UD -s 4096";
    let files = Files::of(place, words, 1, 4096);
    files.check(Moved::Sent, UD_ROOM, words);
}

/// Checks that each FETCH_AND_ADD adds one, and returns the previous value.
fn adds(place: &Place<'_>) {
    let files = Files::of(place, "ib_atomic_bw", 1, 8);
    let number = |role: usize, offset: usize| {
        let bytes = files.bytes[role][offset..].first_chunk().expect("8 bytes");
        u64::from_ne_bytes(*bytes)
    };
    for message in 0..20 {
        // Each message uses a cache line of its own at both ends.
        let (found, left) = (number(1, message * 64), number(0, 4096 + message * 64));
        assert_eq!(left, found.wrapping_add(1), "message {message}");
    }
    let untouched = (number(1, 20 * 64), number(0, 4096 + 20 * 64));
    assert_ne!(untouched.1, untouched.0.wrapping_add(1), "no random bytes");
}

#[test]
fn perftest_moves_the_right_bytes_between_namespaces() {
    if let Some(pair) = pair_for("ib_write_bw") {
        let place = Place::cable(&pair, "udp");
        moves_bytes(&place);
        adds(&place);
    }
}

#[test]
fn perftest_moves_the_right_bytes_on_one_host() {
    if let Some(pair) = pair_for("ib_write_bw") {
        let place = Place::loopback(&pair.near);
        moves_bytes(&place);
        moves_datagrams(&place);
        adds(&place);
    }
}

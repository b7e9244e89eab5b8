//! The other end of a ring, which writes what it likes, for the fuzz target `lane` and for tests.

use crate::mapping::{HEADER_BYTES, Mapping, RING_BYTES};
use crate::ring::{Label, MAX_PACKET_BYTES, NoRoom, Receiver, Sender};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

/// Records begin at multiples of this number of bytes, after a head of [`HEAD_BYTES`].
const LINE: u64 = 64;
const HEAD_BYTES: u64 = 16;
/// The maximum number of calls of a script.
const MAX_CALLS: usize = 256;

/// Plays a script: what a hostile process writes into a ring between calls of the other end, and during
/// them. The first byte says which end is hostile.
///
/// # Panics
/// If the other end passes on what is not in the ring, or goes on with a broken ring.
pub fn run_script(script: &[u8]) {
    let mut script = Script(script);
    let (sender, file) = Sender::create(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a ring");
    let hostile = Hostile::new(&file).expect("a ring");
    match script.byte() % 2 {
        0 => {
            let receiver = Receiver::open(file.as_fd(), script.byte() % 2 == 1);
            receive(&mut script, &hostile, receiver.expect("a ring"));
        }
        _ => send(&mut script, &hostile, sender),
    }
}

/// The bytes of a script, one after the other. After the end, zeros follow.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let len = usize::from(self.byte() % 9);
        let taken = self.take(len);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }
}

/// Plays a receiver, and compares each packet with what is in the ring.
fn receive(script: &mut Script<'_>, hostile: &Hostile, mut receiver: Receiver) {
    let mut room = vec![0; MAX_PACKET_BYTES];
    let mut expected = vec![0; MAX_PACKET_BYTES];
    // Where the record begins, and the bytes of its packets so far.
    let (mut start, mut passed) = (0, 0);
    for _ in 0..MAX_CALLS {
        hostile.act(script, start);
        let budget = usize::from(script.byte());
        let mut packets = 0;
        let taken = receiver.take(budget, &mut room, |_, index, packet| {
            if index == 0 {
                start = end_of(start, passed);
                passed = 0;
            }
            let expected = &mut expected[..packet.len()];
            hostile.read(start + HEAD_BYTES + passed, expected);
            assert!(!packet.is_empty() && packet == expected);
            passed += packet.len() as u64;
            assert!(HEAD_BYTES + passed <= RING_BYTES as u64);
            packets += 1;
            hostile.act(script, start);
        });
        start = end_of(start, passed);
        passed = 0;
        match taken {
            Ok(taken) => assert_eq!(taken, packets),
            // The device drops the lane.
            Err(_) => return,
        }
        if script.0.is_empty() {
            return;
        }
    }
}

/// The end of a record with `passed` bytes of packets; its start if nothing was passed.
fn end_of(start: u64, passed: u64) -> u64 {
    match passed {
        0 => start,
        passed => start + (HEAD_BYTES + passed).next_multiple_of(LINE),
    }
}

/// Plays a sender, and looks for its packets where they must be.
fn send(script: &mut Script<'_>, hostile: &Hostile, mut sender: Sender) {
    let (mut tail, mut byte) = (0, 0_u8);
    let mut found = vec![0; MAX_PACKET_BYTES];
    for _ in 0..MAX_CALLS {
        hostile.act(script, tail);
        let len = script.number() as usize % (MAX_PACKET_BYTES + 2);
        let count = usize::from(script.byte());
        let reserved = sender.reserve(Label::default(), len, count);
        let is_legal = (1..=MAX_PACKET_BYTES).contains(&len);
        match reserved {
            Ok(()) => {
                assert!(is_legal);
                byte = byte.wrapping_add(1);
                let room = sender.room();
                let packets = room.len() / len;
                assert!(room.len().is_multiple_of(len) && (1..=count.max(1)).contains(&packets));
                room.fill(byte);
                hostile.read(tail + HEAD_BYTES, &mut found[..len]);
                assert!(found[..len].iter().all(|&found| found == byte));
                hostile.act(script, tail);
                assert_eq!(sender.commit(), packets);
                tail = end_of(tail, (len * packets) as u64);
            }
            Err(why) => {
                assert!(why == NoRoom::Broken || is_legal);
                assert_eq!((sender.room().len(), sender.commit()), (0, 0));
                if why == NoRoom::Broken && is_legal {
                    return;
                }
            }
        }
        match script.byte() % 4 {
            0 => sender.show(),
            1 => drop((sender.must_wake_receiver(), sender.is_closed())),
            _ => {}
        }
        if script.0.is_empty() {
            return;
        }
    }
}

/// The process at the other end: it has the ring's file.
#[derive(Debug)]
pub(crate) struct Hostile {
    file: File,
    ring: Mapping,
}

impl Hostile {
    /// The process that has `file`, or has sent it.
    ///
    /// # Errors
    /// If the file is not a ring's, or the system refuses a descriptor.
    pub(crate) fn new(file: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            ring: Mapping::open(file.as_fd())?,
            file: file.try_clone()?.into(),
        })
    }

    /// Does what the script says. `at` is where the other end is.
    fn act(&self, script: &mut Script<'_>, at: u64) {
        match script.byte() % 8 {
            0 | 1 => {}
            2 => self.set_tail(at.wrapping_add(LINE.wrapping_mul(script.number()))),
            3 => self.set_tail(script.number()),
            4 => self.set_head(at.wrapping_sub(LINE.wrapping_mul(script.number()))),
            5 => self.set_head(script.number()),
            6 => {
                // A record that is often in order.
                let line = at + LINE * u64::from(script.byte() % 4);
                let len = script.number() as u32;
                self.write_record(line, len, script.number() as u16);
            }
            _ => {
                let place = script.number() as usize;
                let len = usize::from(script.byte());
                self.write(place, script.take(len));
            }
        }
    }

    pub(crate) fn set_tail(&self, tail: u64) {
        self.ring.counters().advance_tail(tail);
    }

    pub(crate) fn set_head(&self, head: u64) {
        self.ring.counters().advance_head(head);
    }

    /// Writes the head of a record at a position of the ring.
    pub(crate) fn write_record(&self, position: u64, len: u32, count: u16) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&len.to_ne_bytes());
        head[4..6].copy_from_slice(&count.to_ne_bytes());
        self.write(HEADER_BYTES + position as usize % RING_BYTES, &head);
    }

    /// Writes bytes anywhere in the file, which ends the writing.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let at = at % (HEADER_BYTES + RING_BYTES);
        let len = bytes.len().min(HEADER_BYTES + RING_BYTES - at);
        let written = self.file.write_all_at(&bytes[..len], at as u64);
        written.expect("the file can be written");
    }

    /// The bytes of the ring from a position on. They wrap.
    fn read(&self, position: u64, bytes: &mut [u8]) {
        let start = position as usize % RING_BYTES;
        let (first, rest) = bytes.split_at_mut(bytes.len().min(RING_BYTES - start));
        for (at, bytes) in [(start, first), (0, rest)] {
            let read = self.file.read_exact_at(bytes, (HEADER_BYTES + at) as u64);
            read.expect("the file can be read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::run_script;
    use testkit::{Dice, each_seed};

    #[test]
    fn scripts_of_random_bytes_are_played() {
        each_seed(200, |seed| {
            let mut dice = Dice::new(seed);
            let mut script = vec![0; 2000];
            dice.fill(&mut script);
            run_script(&script);
        });
    }
}

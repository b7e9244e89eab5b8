//! All packet events, in order: their fingerprint, and the packets that are watched.

use super::EgressId;
use super::fate::Fate;
use super::pool::Packet;
use super::seen::Watch;
use roce_stack::Instant;
use std::io::{self, Write as _};

/// A hash of all packet events. Two runs with the same fingerprint were the same.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    print: bool,
    /// The watched cables, if there are any.
    watch: Option<Box<Watch>>,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            print: false,
            watch: None,
        }
    }

    /// The watched cables.
    pub(super) fn watch(&mut self) -> &mut Watch {
        self.watch.get_or_insert_default()
    }

    /// Prints every packet on stderr from now on.
    pub(super) fn print(&mut self) {
        self.print = true;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Records an event of a packet on `link`.
    pub(super) fn record(
        &mut self,
        now: Instant,
        link: EgressId,
        fate: Fate,
        queued_bytes: usize,
        packet: &Packet,
    ) {
        self.record_drop(now, [link; 2], fate, queued_bytes, packet);
    }

    /// Records that a packet that came on the first link was dropped at the port of the second.
    pub(super) fn record_drop(
        &mut self,
        now: Instant,
        [link, port]: [EgressId; 2],
        fate: Fate,
        queued_bytes: usize,
        packet: &Packet,
    ) {
        if let Some(number) = fate.number() {
            self.hash_packet(now, link, number, packet.bytes());
            if self.print {
                print_packet(now, link, fate, packet.bytes());
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.see(now, port, fate, queued_bytes, packet);
        }
    }

    /// Adds a packet's headers and its ICRC, which represents the rest.
    fn hash_packet(&mut self, now: Instant, at: EgressId, fate: u64, bytes: &[u8]) {
        self.mix(now.as_nanos());
        self.mix((at.0 as u64) << 32 | fate << 24 ^ bytes.len() as u64);
        for chunk in [
            bytes.get(..8),
            bytes.get(8..16),
            bytes.last_chunk::<8>().map(|c| &c[..]),
        ] {
            let word = chunk.and_then(|chunk| chunk.try_into().ok());
            self.mix(u64::from_le_bytes(word.unwrap_or_default()));
        }
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = mixed ^ mixed >> 29;
    }
}

fn print_packet(now: Instant, at: EgressId, fate: Fate, bytes: &[u8]) {
    let what = match roce_wire::Packet::parse(bytes) {
        Ok(packet) => format!(
            "{} psn {:?} to {}{} {:?} {} bytes",
            packet.bth.opcode,
            packet.bth.psn,
            packet.bth.dest_qpn,
            if packet.bth.ack_req { " A" } else { "" },
            packet.ext.aeth.map(|aeth| aeth.syndrome),
            packet.payload.len(),
        ),
        Err(error) => error.to_string(),
    };
    let now = now.as_nanos();
    // There is no place left to report an error.
    let _ = writeln!(io::stderr(), "{now:>12} link {:>2} {fate:?}: {what}", at.0);
}

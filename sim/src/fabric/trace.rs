//! A fingerprint of all packet events, in order.

use super::EgressId;
use roce_stack::Instant;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lost = 1,
    Arrived = 2,
    Dropped = 3,
}

/// A hash of all packet events. Two runs with the same fingerprint were the same.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            print: false,
        }
    }

    /// Prints every packet on stderr from now on.
    pub(super) fn print(&mut self) {
        self.print = true;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Adds a packet's headers and its ICRC, which represents the rest.
    pub(super) fn record(&mut self, now: Instant, at: EgressId, fate: Fate, bytes: &[u8]) {
        self.mix(now.as_nanos());
        self.mix((at.0 as u64) << 32 | (fate as u64) << 24 ^ bytes.len() as u64);
        for chunk in [
            bytes.get(..8),
            bytes.get(8..16),
            bytes.last_chunk::<8>().map(|c| &c[..]),
        ] {
            let word = chunk.and_then(|chunk| chunk.try_into().ok());
            self.mix(u64::from_le_bytes(word.unwrap_or_default()));
        }
        if self.print {
            print_packet(now, at, fate, bytes);
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
    eprintln!("{:>12} link {:>2} {fate:?}: {what}", now.as_nanos(), at.0);
}

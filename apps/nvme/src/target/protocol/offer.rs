//! The subsystem that a target offers.

use crate::wire::Nqn;
use std::net::SocketAddr;
use std::time::Duration;

/// The length of a block in bytes, as a power of two.
const BLOCK_SHIFT: u8 = 9;

/// A target's offer to hosts: one subsystem at one address.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The subsystem's name.
    pub subsystem: Nqn,
    /// Its serial number, at most 20 bytes.
    pub serial: String,
    /// Its namespaces. The first has number 1.
    pub namespaces: Vec<Shape>,
    /// Whether writes may be lost at a power cut until a flush.
    pub volatile_cache: bool,
    /// Where it listens, for the discovery log page.
    pub address: SocketAddr,
    /// The limits of its queues.
    pub limits: Limits,
}

/// The size and the identity of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size in blocks of 512 bytes.
    pub blocks: u64,
    /// An identifier that no other namespace has.
    pub guid: [u8; 16],
    /// Whether writes are refused.
    pub read_only: bool,
}

impl Shape {
    /// The length of a block in bytes, as a power of two.
    pub const fn block_shift(&self) -> u8 {
        BLOCK_SHIFT
    }
}

/// The limits of a target's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// I/O queues of a controller.
    pub queues: u16,
    /// Entries of a queue, at least 32.
    pub entries: u16,
    /// Bytes of data in a command capsule, a multiple of 16.
    pub in_capsule_len: u32,
    /// The most bytes that a command transfers, as a power of two of pages of 4096 bytes, at least 1.
    pub max_transfer_shift: u8,
    /// How long a controller outlives its host's keep-alive timeout.
    pub grace: Duration,
}

impl Limits {
    /// The most bytes that a command transfers.
    pub fn max_transfer(&self) -> u64 {
        4096 << self.max_transfer_shift
    }
}

impl Default for Limits {
    /// 64 queues of 128 entries, 8 KiB in a capsule, transfers of 1 MiB, and 5 s of grace.
    fn default() -> Self {
        Self {
            queues: 64,
            entries: 128,
            in_capsule_len: 8192,
            max_transfer_shift: 8,
            grace: Duration::from_secs(5),
        }
    }
}

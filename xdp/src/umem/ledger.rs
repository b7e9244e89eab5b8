//! Ownership of chunks.

use std::ops::Range;

use super::CHUNK_BYTES;

/// The owner of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Unused.
    Free,
    /// The kernel, which may write a piece of a received frame to the chunk.
    Fill,
    /// This process. The chunk holds a piece of a received frame.
    Received,
    /// This process, which is writing a frame to send to the chunk.
    Writing,
    /// The kernel, which sends the chunk, and reports that in the completion ring.
    Tx,
}

impl Owner {
    /// Every owner.
    pub const ALL: [Self; 5] = [
        Self::Free,
        Self::Fill,
        Self::Received,
        Self::Writing,
        Self::Tx,
    ];

    /// The name of its count in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "chunks_free",
            Self::Fill => "chunks_fill",
            Self::Received => "chunks_received",
            Self::Writing => "chunks_writing",
            Self::Tx => "chunks_tx",
        }
    }
}

/// The number of chunks of each owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts([u32; Owner::ALL.len()]);

impl ChunkCounts {
    /// The number of chunks that `owner` has.
    pub fn of(&self, owner: Owner) -> u32 {
        self.0[owner as usize]
    }

    /// The total number of chunks.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

/// Why an address that the kernel returned is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChunkFault {
    /// The address is outside the queue's share.
    Foreign,
    /// The kernel does not own this chunk now: it returned the chunk twice, or never got it.
    NotOwned,
}

/// Records the owner of each chunk of a share.
#[derive(Debug)]
pub struct Ledger {
    addresses: Range<u64>,
    owners: Box<[Owner]>,
    counts: ChunkCounts,
}

impl Ledger {
    /// A ledger in which all chunks between these addresses are free. The addresses are multiples
    /// of [`CHUNK_BYTES`].
    pub fn new(addresses: Range<u64>) -> Self {
        let chunks = (addresses.end - addresses.start) / CHUNK_BYTES as u64;
        let mut counts = ChunkCounts::default();
        counts.0[Owner::Free as usize] = chunks as u32;
        Self {
            owners: vec![Owner::Free; chunks as usize].into(),
            addresses,
            counts,
        }
    }

    /// The number of chunks of each owner.
    pub fn counts(&self) -> ChunkCounts {
        self.counts
    }

    /// The owner of a chunk, counted from the start of the share.
    pub fn owner(&self, chunk: u32) -> Owner {
        self.owners[chunk as usize]
    }

    /// The address of a chunk.
    pub fn address(&self, chunk: u32) -> u64 {
        self.addresses.start + u64::from(chunk) * CHUNK_BYTES as u64
    }

    /// Passes the chunk at `address`, which the kernel has returned, from `owner` to `to`. Returns
    /// the chunk's index.
    ///
    /// # Errors
    /// If the address is outside the share, or `owner` does not have the chunk.
    pub fn take_back(&mut self, address: u64, owner: Owner, to: Owner) -> Result<u32, ChunkFault> {
        if !self.addresses.contains(&address) {
            return Err(ChunkFault::Foreign);
        }
        let chunk = ((address - self.addresses.start) / CHUNK_BYTES as u64) as u32;
        if self.owners[chunk as usize] != owner {
            return Err(ChunkFault::NotOwned);
        }
        self.pass(chunk, to);
        Ok(chunk)
    }

    /// Gives a chunk to another owner.
    pub fn pass(&mut self, chunk: u32, to: Owner) {
        let owner = &mut self.owners[chunk as usize];
        self.counts.0[*owner as usize] -= 1;
        self.counts.0[to as usize] += 1;
        *owner = to;
    }
}

/// Whether `len` bytes starting at `address` stay in one chunk.
pub(crate) fn is_in_one_chunk(address: u64, len: u32) -> bool {
    address % CHUNK_BYTES as u64 + u64::from(len) <= CHUNK_BYTES as u64
}

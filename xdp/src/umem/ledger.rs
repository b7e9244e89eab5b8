//! Who has each chunk.

use std::ops::Range;

use super::CHUNK_BYTES;

/// Who has a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody: it waits to be used.
    Free,
    /// The kernel, which is to put a piece of a received frame into it.
    Fill,
    /// We: it holds a piece of a received frame.
    Received,
    /// We: a frame to be sent is being written into it.
    Writing,
    /// The kernel, which is to send it, until it says in the completion ring that it has.
    Tx,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Free,
        Self::Fill,
        Self::Received,
        Self::Writing,
        Self::Tx,
    ];

    /// What the number of its chunks is called in tables.
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

/// How many chunks each has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts([u32; Owner::ALL.len()]);

impl ChunkCounts {
    /// How many chunks `owner` has.
    pub fn of(&self, owner: Owner) -> u32 {
        self.0[owner as usize]
    }

    /// How many chunks there are.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

/// What is wrong with an address that the kernel named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkFault {
    /// It is outside of the queue's share.
    Foreign,
    /// The kernel does not have this chunk at the moment: it named it twice, or never got it.
    NotOwned,
}

/// The book of one share's chunks.
#[derive(Debug)]
pub struct Ledger {
    addresses: Range<u64>,
    owners: Box<[Owner]>,
    counts: ChunkCounts,
}

impl Ledger {
    /// All chunks between these addresses are free. The addresses are multiples of
    /// [`CHUNK_BYTES`].
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

    /// How many chunks each has.
    pub fn counts(&self) -> ChunkCounts {
        self.counts
    }

    /// Who has a chunk, counted from the start of the share.
    pub fn owner(&self, chunk: u32) -> Owner {
        self.owners[chunk as usize]
    }

    /// Where a chunk begins.
    pub fn address(&self, chunk: u32) -> u64 {
        self.addresses.start + u64::from(chunk) * CHUNK_BYTES as u64
    }

    /// The kernel says that `chunk` of this address, which `owner` had, is ours again. Returns
    /// the chunk.
    ///
    /// # Errors
    /// If the address is not the share's, or `owner` does not have the chunk.
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

    /// Passes a chunk on.
    pub fn pass(&mut self, chunk: u32, to: Owner) {
        let owner = &mut self.owners[chunk as usize];
        self.counts.0[*owner as usize] -= 1;
        self.counts.0[to as usize] += 1;
        *owner = to;
    }
}

/// Whether `len` bytes from `address` on stay in the chunk that they begin in.
pub(crate) fn stays_in_chunk(address: u64, len: u32) -> bool {
    address % CHUNK_BYTES as u64 + u64::from(len) <= CHUNK_BYTES as u64
}

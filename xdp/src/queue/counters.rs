//! The counters of a queue.

use crate::umem::ChunkFault;

/// Why a received frame, or a piece of one, was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RxDrop {
    /// A piece at an address outside of the queue's memory.
    ForeignAddress,
    /// A piece in a chunk that the kernel did not have.
    ChunkNotOwned,
    /// A piece longer than its chunk.
    PieceTooLong,
    /// A frame with more pieces than the maximum.
    TooManyPieces,
}

impl RxDrop {
    /// Every reason.
    pub const ALL: [Self; 4] = [
        Self::ForeignAddress,
        Self::ChunkNotOwned,
        Self::PieceTooLong,
        Self::TooManyPieces,
    ];

    /// The reason's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ForeignAddress => "rx_foreign_address",
            Self::ChunkNotOwned => "rx_chunk_not_owned",
            Self::PieceTooLong => "rx_piece_too_long",
            Self::TooManyPieces => "rx_too_many_pieces",
        }
    }
}

impl From<ChunkFault> for RxDrop {
    fn from(fault: ChunkFault) -> Self {
        match fault {
            ChunkFault::Foreign => Self::ForeignAddress,
            ChunkFault::NotOwned => Self::ChunkNotOwned,
        }
    }
}

/// The frames that a queue has received, sent and dropped so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Frames delivered.
    pub rx_frames: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Frames delivered that arrived in several pieces.
    pub rx_in_pieces: u64,
    /// System calls that made the kernel check the fill ring.
    pub rx_wakeups: u64,
    /// Frames passed to the kernel.
    pub tx_frames: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Chunks that the kernel has reported as sent.
    pub tx_completed: u64,
    /// System calls that made the kernel check the TX ring.
    pub tx_wakeups: u64,
    /// Reservations refused because all slots were in use.
    pub tx_full: u64,
    /// Frames dropped because the TX ring was full although a slot was free: the kernel reported
    /// frames as sent that it had not taken from the ring.
    pub tx_ring_full: u64,
    /// Frames whose checksum was left to the driver or the kernel.
    pub tx_checksums: u64,
    /// Completions of chunks that the kernel was not sending.
    pub tx_bad_completions: u64,
    rx_dropped: [u64; RxDrop::ALL.len()],
}

impl QueueCounters {
    /// The number of pieces or frames dropped for `reason`.
    pub fn dropped(&self, reason: RxDrop) -> u64 {
        self.rx_dropped[reason as usize]
    }

    /// The number of received frames and pieces dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.rx_dropped.iter().sum()
    }

    pub(super) fn drop_received(&mut self, reason: RxDrop) {
        self.rx_dropped[reason as usize] += 1;
    }

    /// Every counter with its name, for tables.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let own = [
            ("rx_frames", self.rx_frames),
            ("rx_frame_bytes", self.rx_bytes),
            ("rx_in_pieces", self.rx_in_pieces),
            ("rx_wakeups", self.rx_wakeups),
            ("tx_frames", self.tx_frames),
            ("tx_frame_bytes", self.tx_bytes),
            ("tx_completed", self.tx_completed),
            ("tx_wakeups", self.tx_wakeups),
            ("tx_full", self.tx_full),
            ("tx_ring_full", self.tx_ring_full),
            ("tx_checksums", self.tx_checksums),
            ("tx_bad_completions", self.tx_bad_completions),
        ];
        let dropped = self.rx_dropped;
        own.into_iter().chain(
            RxDrop::ALL
                .into_iter()
                .map(move |reason| (reason.name(), dropped[reason as usize])),
        )
    }
}

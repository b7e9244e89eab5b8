//! How much memory a queue has.

use super::TxMetadata;
use crate::umem::CHUNK_BYTES;

/// How much memory a queue has and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Chunks that received frames come in.
    pub rx_chunks: u32,
    /// Frames that can wait to be sent, or for the kernel to say that they were.
    pub tx_frames: u32,
    /// The longest frame to be sent, Ethernet header included, in bytes.
    pub max_frame_bytes: usize,
    /// Whether what is sent is to have room for [`TxMetadata`](super::TxMetadata). See
    /// [`QueueConfig::has_metadata`].
    pub tx_metadata: bool,
}

impl QueueConfig {
    /// For frames of up to so many bytes: 2048 chunks each way, which is 16 MiB.
    pub fn for_frames(max_frame_bytes: usize) -> Self {
        let sized = Self {
            rx_chunks: 2048,
            tx_frames: 2048,
            max_frame_bytes,
            tx_metadata: false,
        };
        Self {
            tx_frames: (2048 / sized.chunks_per_frame()).max(64),
            ..sized
        }
    }

    /// Whether there is room for metadata. The kernel wants it in front of every piece in
    /// the piece's own chunk; our pieces lie beside each other, so only frames of one piece
    /// can have any.
    pub fn has_metadata(&self) -> bool {
        self.tx_metadata && self.max_frame_bytes + TxMetadata::LEN <= CHUNK_BYTES
    }

    /// Bytes of the first chunk in front of a frame to be sent.
    pub(crate) fn tx_headroom(&self) -> usize {
        if self.has_metadata() {
            TxMetadata::LEN
        } else {
            0
        }
    }

    /// Chunks that a frame to be sent has room in.
    pub fn chunks_per_frame(&self) -> u32 {
        self.max_frame_bytes.div_ceil(CHUNK_BYTES).max(1) as u32
    }

    /// Chunks that the queue needs.
    pub fn chunks(&self) -> u32 {
        self.rx_chunks + self.tx_chunks()
    }

    /// Chunks for frames to be sent.
    pub fn tx_chunks(&self) -> u32 {
        self.tx_frames * self.chunks_per_frame()
    }
}

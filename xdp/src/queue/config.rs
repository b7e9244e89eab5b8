//! The memory of a queue.

use super::TxMetadata;
use crate::umem::CHUNK_BYTES;

/// The amounts of memory of a queue, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Number of chunks for received frames.
    pub rx_chunks: u32,
    /// The maximum number of frames that wait to be sent, or to be completed by the kernel.
    pub tx_frames: u32,
    /// The maximum length of a frame to send, Ethernet header included, in bytes.
    pub max_frame_bytes: usize,
    /// Whether frames to send have space for [`TxMetadata`](super::TxMetadata). See
    /// [`QueueConfig::has_metadata`].
    pub tx_metadata: bool,
}

impl QueueConfig {
    /// A configuration for frames of up to `max_frame_bytes` bytes: 2048 chunks each way, which is
    /// 16 MiB.
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

    /// Whether frames to send have space for metadata. The kernel expects metadata in front of
    /// every piece, within the piece's chunk. The pieces of a queue's frame are adjacent, so only
    /// frames of one piece can have metadata.
    pub fn has_metadata(&self) -> bool {
        self.tx_metadata && self.max_frame_bytes + TxMetadata::LEN <= CHUNK_BYTES
    }

    /// Bytes of headroom in the first chunk of a frame to send.
    pub(crate) fn tx_headroom(&self) -> usize {
        if self.has_metadata() {
            TxMetadata::LEN
        } else {
            0
        }
    }

    /// Number of chunks reserved for each frame to send.
    pub fn chunks_per_frame(&self) -> u32 {
        self.max_frame_bytes.div_ceil(CHUNK_BYTES).max(1) as u32
    }

    /// Number of chunks that the queue needs.
    pub fn chunks(&self) -> u32 {
        self.rx_chunks + self.tx_chunks()
    }

    /// Number of chunks for frames to send.
    pub fn tx_chunks(&self) -> u32 {
        self.tx_frames * self.chunks_per_frame()
    }
}

//! How much memory a queue has.

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
}

impl QueueConfig {
    /// For frames of up to so many bytes: 2048 chunks each way, which is 16 MiB.
    pub fn for_frames(max_frame_bytes: usize) -> Self {
        let sized = Self {
            rx_chunks: 2048,
            tx_frames: 2048,
            max_frame_bytes,
        };
        Self {
            tx_frames: (2048 / sized.chunks_per_frame()).max(64),
            ..sized
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

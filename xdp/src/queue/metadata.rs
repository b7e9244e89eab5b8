//! What the driver, or the kernel, is asked to do to a frame that leaves.

/// Where a checksum of 16 bits belongs (RFC 1071), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumAt {
    /// From the start of the frame to the first byte that it covers; it covers all from
    /// there on.
    pub start: u16,
    /// From there to its own place, which holds the sum of what lies elsewhere, such as the
    /// pseudo header's.
    pub offset: u16,
}

impl ChecksumAt {
    /// Whether it lies within a frame of `len` bytes. The kernel drops the frame if not.
    pub(crate) fn is_in(self, len: usize) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= len
    }
}

/// What lies in front of a frame to be sent (`struct xsk_tx_metadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxMetadata {
    /// The checksum that is to be filled in.
    pub checksum: ChecksumAt,
}

impl TxMetadata {
    /// Its length in bytes. The kernel's structure has 16, from Linux 6.14 on 24, and lies
    /// at the start of it.
    pub const LEN: usize = 32;

    /// The metadata as bytes.
    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.checksum.start.to_ne_bytes());
        bytes[10..12].copy_from_slice(&self.checksum.offset.to_ne_bytes());
        bytes
    }
}

//! Metadata in front of a frame to send, which requests offloads from the driver or the kernel.

/// The position of a 16-bit checksum (RFC 1071), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumAt {
    /// The offset in the frame of the first byte that the checksum covers. It covers all bytes from
    /// there to the end.
    pub start: u16,
    /// Offset of the checksum field from `start`. Before the checksum is filled in, the field holds
    /// the sum of bytes that it does not cover, such as the pseudo header's.
    pub offset: u16,
}

impl ChecksumAt {
    /// Whether the checksum lies within a frame of `len` bytes. Otherwise, the kernel drops the
    /// frame.
    pub(crate) fn is_in(self, len: usize) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= len
    }
}

/// The metadata in front of a frame to send (`struct xsk_tx_metadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxMetadata {
    /// The checksum to fill in.
    pub checksum: ChecksumAt,
}

impl TxMetadata {
    /// The length of the metadata in bytes. It starts with the kernel's structure, which has 16
    /// bytes, and 24 since Linux 6.14.
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

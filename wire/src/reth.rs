//! The RDMA extended transport header.

use crate::Layer;
use crate::header::{be32, be64, fixed_header};

/// The RDMA extended transport header: the memory that an RDMA WRITE, RDMA READ, FLUSH or ATOMIC
/// WRITE accesses (IBTA 1.7, 9.3.3).
///
/// 8 bytes of virtual address, 4 of remote key, 4 of length, all big-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Address in the responder's memory.
    pub va: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// Bytes of the whole message, at most 2^31.
    pub dma_len: u32,
}

// rule: 9.3.3-reth
fixed_header!(Reth, 16, Layer::Reth);

impl Reth {
    #[inline]
    pub(crate) const fn from_bytes(b: &[u8; Reth::LEN]) -> Reth {
        Reth {
            va: be64(b, 0),
            rkey: be32(b, 8),
            dma_len: be32(b, 12),
        }
    }

    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; Reth::LEN] {
        let mut b = [0; Reth::LEN];
        b[0..8].copy_from_slice(&self.va.to_be_bytes());
        b[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        b[12..16].copy_from_slice(&self.dma_len.to_be_bytes());
        b
    }
}

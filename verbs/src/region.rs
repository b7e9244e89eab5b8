//! Memory regions.

use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{Buffer, BufferRange, RemoteAddr, Sge};
use std::ops::Deref;
use std::sync::Arc;

/// Registered memory: a [`Buffer`] with keys. Peers may access it, as its rights
/// allow, until it is dropped; the memory itself is freed only after that.
///
/// Reading and writing are the buffer's: they copy, since a peer may change the
/// bytes at any time.
#[derive(Debug)]
pub struct MemoryRegion {
    pd: ProtectionDomain,
    buffer: Arc<Buffer>,
    key: u32,
}

impl MemoryRegion {
    pub(crate) fn new(pd: ProtectionDomain, buffer: Arc<Buffer>, key: u32) -> Self {
        Self { pd, buffer, key }
    }

    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// The buffer behind it.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// `len` bytes from `offset` on, for a work request.
    ///
    /// # Errors
    /// If they reach beyond the end, or are more than a work request can name.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Sge, RegionError> {
        let range = BufferRange {
            offset,
            len,
            buffer_len: self.buffer.len(),
        };
        let fits = offset <= range.buffer_len && len <= range.buffer_len - offset;
        match u32::try_from(len) {
            Ok(length) if fits => Ok(Sge {
                addr: self.addr() + offset as u64,
                length,
                lkey: self.key,
            }),
            _ => Err(RegionError::Range(range)),
        }
    }

    /// All of it, for a work request.
    ///
    /// # Errors
    /// If it is longer than a work request can name.
    pub fn all(&self) -> Result<Sge, RegionError> {
        self.slice(0, self.buffer.len())
    }

    /// What a peer needs to access the bytes from `offset` on.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr {
            addr: self.addr().wrapping_add(offset),
            rkey: self.key,
        }
    }
}

impl Deref for MemoryRegion {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        self.pd.context.inner.shared.lock().nic.deregister(self.key);
    }
}

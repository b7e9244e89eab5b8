//! Memory regions.

use super::Registration;
use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, Buffer, DeregisterError, Memory, RemoteAddr, ReregisterError, Sge};
use std::ops::Deref;
use std::sync::Arc;

/// Registered memory: a [`Buffer`] with keys. Peers may access it, as its rights
/// allow, until it is dropped; the memory itself is freed only after that.
///
/// Reading and writing are the buffer's: they copy, since a peer may change the
/// bytes at any time.
#[derive(Debug)]
pub struct MemoryRegion {
    pub(crate) registration: Registration,
    buffer: Arc<Buffer>,
}

impl ProtectionDomain {
    /// Allocates `len` zero bytes, beginning at a page, and registers them.
    ///
    /// # Errors
    /// If the rights contradict each other.
    pub fn allocate(&self, len: usize, access: Access) -> Result<MemoryRegion, RegionError> {
        let buffer = Arc::new(Buffer::new(len)?);
        self.register(buffer, access)
    }

    /// Registers a buffer (once more, perhaps with other rights).
    ///
    /// # Errors
    /// If the rights contradict each other.
    pub fn register(
        &self,
        buffer: Arc<Buffer>,
        access: Access,
    ) -> Result<MemoryRegion, RegionError> {
        let memory = Memory::buffer(Arc::clone(&buffer));
        let registration = self.register_memory(memory, None, access)?;
        Ok(MemoryRegion::new(registration, buffer))
    }
}

impl MemoryRegion {
    pub(crate) fn new(registration: Registration, buffer: Arc<Buffer>) -> Self {
        Self {
            registration,
            buffer,
        }
    }

    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.registration.lkey()
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.registration.rkey()
    }

    /// Changes protection domain, rights or both, without changing the keys.
    ///
    /// # Errors
    /// See [`ReregisterError`]; the region is as it was.
    pub fn reregister(
        &mut self,
        pd: Option<&ProtectionDomain>,
        access: Option<Access>,
    ) -> Result<(), ReregisterError> {
        self.registration.reregister(pd, access, None)
    }

    /// Deregisters it, but not while windows are bound to it; dropping it unbinds them.
    ///
    /// # Errors
    /// With the region itself, if windows are bound to it.
    pub fn deregister(self) -> Result<(), (Self, DeregisterError)> {
        let Self {
            registration,
            buffer,
        } = self;
        registration
            .deregister()
            .map_err(|(registration, error)| (Self::new(registration, buffer), error))
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
        self.registration.slice(offset as u64, len as u64)
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
        self.registration.remote(offset)
    }
}

impl Deref for MemoryRegion {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

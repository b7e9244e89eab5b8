//! Memory regions.

use super::Registration;
use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, Buffer, DeregisterError, Memory, RemoteAddr, ReregisterError, Sge};
use std::ops::Deref;
use std::sync::Arc;

/// Registered memory: a [`Buffer`] with keys. Peers may access it, within its rights, until it is
/// dropped. The memory itself is freed only after that.
///
/// It derefs to its [`Buffer`], which has the methods to read and write the bytes. They copy,
/// because a peer may change the bytes at any time.
#[derive(Debug)]
pub struct MemoryRegion {
    pub(crate) registration: Registration,
    buffer: Arc<Buffer>,
}

impl ProtectionDomain {
    /// Allocates `len` zero bytes, aligned to a page, and registers them.
    ///
    /// # Errors
    /// If the address space can't hold the bytes, or `access` allows remote writes or atomics
    /// without [`Access::LOCAL_WRITE`].
    pub fn allocate(&self, len: usize, access: Access) -> Result<MemoryRegion, RegionError> {
        let buffer = Arc::new(Buffer::new(len)?);
        self.register(buffer, access)
    }

    /// Registers a buffer. The same buffer may be registered several times, with different rights.
    ///
    /// # Errors
    /// If `access` allows remote writes or atomics without [`Access::LOCAL_WRITE`].
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

    /// Changes the protection domain, the rights or both, without changing the keys.
    ///
    /// # Errors
    /// See [`ReregisterError`]. The region is then unchanged.
    pub fn reregister(
        &mut self,
        pd: Option<&ProtectionDomain>,
        access: Option<Access>,
    ) -> Result<(), ReregisterError> {
        self.registration.reregister(pd, access, None)
    }

    /// Deregisters the region, unless windows are bound to it. Dropping the region deregisters it
    /// in any case, and unbinds them.
    ///
    /// # Errors
    /// If windows are bound to it; the error returns the region.
    pub fn deregister(self) -> Result<(), (Self, DeregisterError)> {
        let Self {
            registration,
            buffer,
        } = self;
        registration
            .deregister()
            .map_err(|(registration, error)| (Self::new(registration, buffer), error))
    }

    /// The region's buffer.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// `len` bytes from `offset` on, for a work request.
    ///
    /// # Errors
    /// If they reach beyond the end, or `len` is more than a work request can name.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Sge, RegionError> {
        self.registration.slice(offset as u64, len as u64)
    }

    /// The whole region, for a work request.
    ///
    /// # Errors
    /// If the region is longer than a work request can name.
    pub fn all(&self) -> Result<Sge, RegionError> {
        self.slice(0, self.buffer.len())
    }

    /// The address and key with which a peer accesses the bytes from `offset` on.
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

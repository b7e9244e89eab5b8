//! Memory of the device.

use super::Registration;
use crate::context::Context;
use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, Buffer, BufferRangeError, Memory};
use std::sync::Arc;

/// The maximum size of one allocation of device memory, in bytes.
pub const MAX_DEVICE_MEMORY_BYTES: usize = 64 << 20;

/// Memory that belongs to the device, like that of `ibv_alloc_dm`: the application copies to and
/// from it, and never sees an address. (This implementation uses ordinary memory of the process.)
#[derive(Clone, Debug)]
pub struct DeviceMemory {
    buffer: Arc<Buffer>,
}

impl Context {
    /// Allocates `len` zero bytes of device memory, at most
    /// [`MAX_DEVICE_MEMORY_BYTES`](crate::memory::MAX_DEVICE_MEMORY_BYTES).
    ///
    /// # Errors
    /// If `len` is too large.
    pub fn alloc_device_memory(&self, len: usize) -> Result<DeviceMemory, BufferRangeError> {
        DeviceMemory::new(len)
    }
}

impl DeviceMemory {
    fn new(len: usize) -> Result<Self, BufferRangeError> {
        if len > MAX_DEVICE_MEMORY_BYTES {
            return Err(BufferRangeError {
                offset: 0,
                len,
                buffer_len: MAX_DEVICE_MEMORY_BYTES,
            });
        }
        let buffer = Arc::new(Buffer::new(len)?);
        Ok(Self { buffer })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Copies `data` to the device, to `offset`.
    ///
    /// # Errors
    /// If the bytes reach beyond the end.
    pub fn copy_to(&self, offset: usize, data: &[u8]) -> Result<(), BufferRangeError> {
        self.buffer.write(offset, data)
    }

    /// Copies bytes at `offset` from the device to `out`.
    ///
    /// # Errors
    /// If the bytes reach beyond the end.
    pub fn copy_from(&self, offset: usize, out: &mut [u8]) -> Result<(), BufferRangeError> {
        self.buffer.read(offset, out)
    }

    /// Registers `len` bytes from `offset` on. Work requests and peers address the first of them as
    /// 0. The memory lives at least as long as the registration.
    ///
    /// # Errors
    /// If the bytes reach beyond the end, or `access` allows remote writes or atomics without
    /// [`Access::LOCAL_WRITE`].
    pub fn register(
        &self,
        pd: &ProtectionDomain,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<Registration, RegionError> {
        let part = Memory::part(Arc::clone(&self.buffer), offset, len)?;
        pd.register_memory(part, Some(0), access)
    }
}

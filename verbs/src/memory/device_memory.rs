//! Memory of the device.

use super::Registration;
use crate::context::Context;
use crate::error::{DeviceMemoryError, RegionError};
use crate::pd::ProtectionDomain;
use roce_stack::{Access, Buffer, Memory};
use std::sync::Arc;

/// The maximum size of one allocation of device memory, in bytes.
pub const MAX_DEVICE_MEMORY_BYTES: usize = 64 << 20;

/// The largest alignment of device memory, as a power of two: a page.
const MAX_LOG2_ALIGNMENT: u32 = 12;

/// The unit in which device memory is copied, in bytes. Real devices do not support smaller units,
/// so this one refuses them, too.
const WORD: usize = 4;

/// Memory that belongs to the device, like that of `ibv_alloc_dm`: the application copies to and
/// from it, and never sees an address. (This implementation uses ordinary memory of the process.)
#[derive(Clone, Debug)]
pub struct DeviceMemory {
    buffer: Arc<Buffer>,
}

impl Context {
    /// Allocates `len` zero bytes of device memory, 1 to
    /// [`MAX_DEVICE_MEMORY_BYTES`](crate::memory::MAX_DEVICE_MEMORY_BYTES). They are aligned to
    /// `1 << log2_alignment`, at most 4096.
    ///
    /// # Errors
    /// If `len` or `log2_alignment` is too large, or `len` is 0.
    pub fn alloc_device_memory(
        &self,
        len: usize,
        log2_alignment: u32,
    ) -> Result<DeviceMemory, DeviceMemoryError> {
        DeviceMemory::new(len, log2_alignment)
    }
}

impl DeviceMemory {
    fn new(len: usize, log2_alignment: u32) -> Result<Self, DeviceMemoryError> {
        if log2_alignment > MAX_LOG2_ALIGNMENT {
            let max = MAX_LOG2_ALIGNMENT;
            return Err(DeviceMemoryError::Alignment {
                log2_alignment,
                max,
            });
        }
        match len {
            0 => return Err(DeviceMemoryError::Empty),
            1..=MAX_DEVICE_MEMORY_BYTES => (),
            _ => {
                let max = MAX_DEVICE_MEMORY_BYTES;
                return Err(DeviceMemoryError::TooLarge { len, max });
            }
        }
        // It is aligned to a page.
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

    /// Copies `data` to the device, to `offset`. Both offset and length are multiples of 4.
    ///
    /// # Errors
    /// If they are not, or the bytes reach beyond the end.
    pub fn copy_to(&self, offset: usize, data: &[u8]) -> Result<(), DeviceMemoryError> {
        check_words(offset, data.len())?;
        Ok(self.buffer.write(offset, data)?)
    }

    /// Copies bytes at `offset` from the device to `out`. Both offset and length are multiples of 4.
    ///
    /// # Errors
    /// If they are not, or the bytes reach beyond the end.
    pub fn copy_from(&self, offset: usize, out: &mut [u8]) -> Result<(), DeviceMemoryError> {
        check_words(offset, out.len())?;
        Ok(self.buffer.read(offset, out)?)
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

fn check_words(offset: usize, len: usize) -> Result<(), DeviceMemoryError> {
    match offset.is_multiple_of(WORD) && len.is_multiple_of(WORD) {
        true => Ok(()),
        false => Err(DeviceMemoryError::NotWords { offset, len }),
    }
}

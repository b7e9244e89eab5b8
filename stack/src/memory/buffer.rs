//! Memory that the library owns and that peers may read and write.

use super::shared_copy;
use core::sync::atomic::{AtomicU64, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// The alignment of buffers: a page, as applications of RDMA hardware expect.
const ALIGN: usize = 4096;

/// A zeroed buffer with shared access: the application uses the methods here, and peers access it
/// through a registration.
///
/// Peers and other threads may change the bytes at any time. So the buffer copies, and hands out no
/// references to its bytes except as atomics. Concurrent access is no data race: it yields old, new
/// or mixed bytes, as with the DMA of any RNIC.
#[derive(Debug)]
pub struct Buffer {
    base: *mut u8,
    len: usize,
}

// SAFETY: the bytes are plain memory, accessed by raw copies and atomics only; the
// allocation is freed when the last owner goes, whichever thread that is on.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// A buffer of this size can't be allocated, or an access reaches beyond the buffer's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BufferRangeError {
    /// The first byte of the access.
    pub offset: usize,
    /// The length of the access in bytes.
    pub len: usize,
    /// The length of the buffer in bytes.
    pub buffer_len: usize,
}

impl core::fmt::Display for BufferRangeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} bytes at offset {} do not lie in a buffer of {} bytes",
            self.len, self.offset, self.buffer_len
        )
    }
}

impl core::fmt::Debug for BufferRangeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BufferRangeError {}

fn layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len.max(1), ALIGN).ok()
}

impl Buffer {
    /// Allocates a page-aligned buffer of `len` zero bytes.
    ///
    /// # Errors
    /// If the address space can't hold it. If memory is exhausted, the process
    /// aborts.
    pub fn new(len: usize) -> Result<Self, BufferRangeError> {
        let Some(layout) = layout(len) else {
            return Err(BufferRangeError {
                offset: 0,
                len,
                buffer_len: 0,
            });
        };
        // SAFETY: the layout's size is at least 1.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Ok(Self { base, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address.
    pub fn addr(&self) -> u64 {
        self.base as u64
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn check(&self, offset: usize, len: usize) -> Result<*mut u8, BufferRangeError> {
        if offset > self.len || len > self.len - offset {
            return Err(BufferRangeError {
                offset,
                len,
                buffer_len: self.len,
            });
        }
        Ok(self.base.wrapping_add(offset))
    }

    /// Copies bytes out of the buffer, from `offset` on.
    ///
    /// # Errors
    /// If they reach beyond the end of the buffer.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), BufferRangeError> {
        let from = self.check(offset, out.len())?;
        // SAFETY: checked to lie in the allocation, which lives as long as `self`;
        // `out` is a unique borrow of other memory.
        unsafe { shared_copy::copy(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies bytes into the buffer, from `offset` on.
    ///
    /// # Errors
    /// If they reach beyond the end of the buffer.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), BufferRangeError> {
        let to = self.check(offset, data.len())?;
        // SAFETY: as in `read`, with the roles exchanged.
        unsafe { shared_copy::copy(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Reads one byte with acquire ordering: everything that was written before it is visible, too.
    /// For polling.
    ///
    /// # Errors
    /// If it lies beyond the end of the buffer.
    pub fn load_u8(&self, offset: usize) -> Result<u8, BufferRangeError> {
        let from = self.check(offset, 1)?;
        // SAFETY: in the allocation; an `AtomicU8` needs no alignment.
        let cell = unsafe { core::sync::atomic::AtomicU8::from_ptr(from) };
        Ok(cell.load(Ordering::Acquire))
    }

    /// The 8 bytes at `offset`, which must be a multiple of 8, as an atomic.
    ///
    /// # Errors
    /// If they reach beyond the end of the buffer or are misaligned.
    pub fn atomic_u64(&self, offset: usize) -> Result<&AtomicU64, BufferRangeError> {
        let at = self.check(offset, 8)?.cast::<u64>();
        if !at.is_aligned() {
            return Err(BufferRangeError {
                offset,
                len: 8,
                buffer_len: self.len,
            });
        }
        // SAFETY: aligned, in the allocation, which outlives the borrow of `self`.
        Ok(unsafe { AtomicU64::from_ptr(at) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = layout(self.len) {
            // SAFETY: `base` was allocated in `new` with this layout.
            unsafe { dealloc(self.base, layout) };
        }
    }
}

//! Pages of on-demand regions. The application may unmap them at any time.
#![allow(unsafe_code)]

use roce_stack::{Buffer, FaultSafe, Memory, MemoryFault};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of a buffer that is mapped or not.
#[derive(Debug)]
pub(super) struct Pages {
    buffer: Arc<Buffer>,
    from: usize,
    len: usize,
    mapped: AtomicBool,
}

impl Pages {
    /// Maps a part of a buffer.
    pub(super) fn new(buffer: Arc<Buffer>, from: usize, len: usize) -> Arc<Self> {
        Arc::new(Self {
            buffer,
            from,
            len,
            mapped: AtomicBool::new(true),
        })
    }

    /// Unmaps all of it for good. Returns whether it was mapped.
    pub(super) fn unmap(&self) -> bool {
        self.mapped.swap(false, Ordering::Relaxed)
    }

    /// Whether it is mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// The memory that a region of it consists of.
    pub(super) fn memory(self: &Arc<Self>) -> Memory {
        let addr = self.buffer.addr() + self.from as u64;
        let accessor = Arc::clone(self);
        // SAFETY: the accessor reaches only the bytes of its `Buffer`, through the calls of
        // `Buffer`, which keeps them alive and hands out no reference to plain bytes.
        unsafe { Memory::on_demand(addr, self.len as u64, accessor) }
    }

    /// The offset in the buffer of `len` bytes at `addr`, if they are mapped.
    fn offset(&self, addr: u64, len: usize) -> Result<usize, MemoryFault> {
        let begin = self.buffer.addr() + self.from as u64;
        let at = addr.checked_sub(begin).ok_or(MemoryFault)?;
        let at = usize::try_from(at).map_err(|_| MemoryFault)?;
        match self.is_mapped() && at <= self.len && len <= self.len - at {
            true => Ok(self.from + at),
            false => Err(MemoryFault),
        }
    }
}

impl FaultSafe for Pages {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let at = self.offset(addr, out.len())?;
        self.buffer.read(at, out).map_err(|_| MemoryFault)
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault> {
        let at = self.offset(addr, data.len())?;
        self.buffer.write(at, data).map_err(|_| MemoryFault)
    }

    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault> {
        let at = self.offset(addr, 8)?;
        let word = self.buffer.atomic_u64(at).map_err(|_| MemoryFault)?;
        // A run has one thread.
        let before = word.load(Ordering::Relaxed);
        if let Some(after) = change(before) {
            word.store(after, Ordering::Relaxed);
        }
        Ok(before)
    }
}

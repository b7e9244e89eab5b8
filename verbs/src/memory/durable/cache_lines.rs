//! Writes back cache lines to persistent memory.

use crate::memory::guarded_memory;
use roce_stack::MemoryFault;

/// The bytes of a cache line on the supported processors.
const LINE: u64 = 64;

/// Writes back the cache lines of `len` bytes at `addr`, and waits until the memory has them.
///
/// # Errors
/// If the file does not have the pages any more.
pub(super) fn write_back(addr: u64, len: u64) -> Result<(), MemoryFault> {
    let first = addr - addr % LINE;
    let lines = (addr + len - first).div_ceil(LINE);
    if len == 0 {
        return Ok(());
    }
    guarded_memory::write_back(first, lines)
}

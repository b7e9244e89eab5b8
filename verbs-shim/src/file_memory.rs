//! Memory that a file stands behind, which another process may truncate.

use crate::errors::OrErrno;
use crate::mappings;
use nix::errno::Errno;
use roce_verbs::memory::{Durable, DurableFiles, Memory, file_accessor};
use std::sync::Arc;

/// The memory at `addr`, for a region with this access.
///
/// # Safety
/// As for [`Memory::foreign`], except that pages of a file may vanish.
///
/// # Errors
/// If the accessor of file memory can't be made.
pub(crate) unsafe fn memory(addr: *mut u8, len: u64) -> Result<Memory, Errno> {
    let range = addr as u64..(addr as u64).saturating_add(len);
    if mappings::have_file(range) {
        // SAFETY: the caller promises the same.
        unsafe { mapped_file(addr, len) }
    } else {
        // SAFETY: the caller promises the same.
        Ok(unsafe { Memory::foreign(addr, len) })
    }
}

/// The same memory, which peers can flush to persistence.
///
/// # Errors
/// `EINVAL` if it is not all that of files that survive a loss of power.
pub(crate) fn durable(memory: Memory) -> Result<Memory, Errno> {
    let files: Arc<dyn Durable> = DurableFiles::behind(memory.addr(), memory.len()).or_errno()?;
    Ok(memory.with_durable(files))
}

/// The memory at `addr`, which a file stands behind.
///
/// # Safety
/// As for [`memory`].
///
/// # Errors
/// As for [`memory`].
pub(crate) unsafe fn mapped_file(addr: *mut u8, len: u64) -> Result<Memory, Errno> {
    let accessor = file_accessor().or_errno()?;
    // SAFETY: the caller promises the same.
    Ok(unsafe { Memory::on_demand(addr as u64, len, accessor) })
}

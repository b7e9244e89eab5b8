//! Memory that may vanish: the program may unmap or protect it, and another process may truncate the
//! file behind it.

use crate::mappings;
use crate::prelude::*;
use roce_verbs::memory::{Durable, DurableFiles, Memory, guarded_accessor};

/// The mapped memory at `addr`. Requests that need bytes that are not there any more fail.
///
/// # Safety
/// As for [`Memory::on_demand`]. On processors other than x86-64, as for [`Memory::foreign`], except
/// that pages of a file may vanish.
///
/// # Errors
/// If the accessor can't be made.
pub(crate) unsafe fn memory(addr: *mut u8, len: u64) -> Result<Memory, Errno> {
    let range = addr as u64..(addr as u64).saturating_add(len);
    // Elsewhere, a guarded access costs a system call.
    if cfg!(target_arch = "x86_64") || mappings::have_file(range) {
        let accessor = guarded_accessor().or_errno()?;
        // SAFETY: the caller promises the same.
        Ok(unsafe { Memory::on_demand(addr as u64, len, accessor) })
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

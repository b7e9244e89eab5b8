//! Memory that a file stands behind, which another process may truncate.

use crate::errors::OrErrno;
use crate::mappings;
use nix::errno::Errno;
use roce_verbs::memory::{Memory, file_accessor};

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

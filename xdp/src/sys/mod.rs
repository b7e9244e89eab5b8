//! System calls and shared memory behind safe functions. All unsafe code of the crate is in this
//! module, except for one borrow in `umem` and the registration of memory in `socket`.

pub(crate) mod bpf;
pub(crate) mod memory;
pub(crate) mod netlink;
pub(crate) mod ring;
pub(crate) mod xsk;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The result of a system call that returns a negative number on failure.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Takes ownership of the descriptor that a system call has just made.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = checked(result)?;
    // SAFETY: the kernel has just created this descriptor for this call, so nothing else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

//! Socket options, and whether an interface exists.

use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option whose value is an `int`.
pub(crate) fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer is to an `int` that lives through the call, and its size
    // is given.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether the kernel has an interface of this index.
pub(crate) fn interface_exists(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the IF_NAMESIZE bytes that the call may write.
    let result = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    !result.is_null()
}

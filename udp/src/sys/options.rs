//! Socket options, and whether an interface exists.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
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

/// Makes what the socket sends to IPv4 multicast groups leave through the interface.
pub(crate) fn set_multicast_interface_v4(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let any = libc::in_addr { s_addr: 0 };
    let request = libc::ip_mreqn {
        imr_multiaddr: any,
        imr_address: any,
        imr_ifindex: index.cast_signed(),
    };
    // SAFETY: the pointer is to an `ip_mreqn`, which is plain integers without padding
    // and lives through the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            (&raw const request).cast(),
            size_of::<libc::ip_mreqn>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether there is an interface of this index in the socket's network namespace.
pub(crate) fn interface_exists(fd: BorrowedFd<'_>, index: u32) -> bool {
    // SAFETY: a C struct of bytes and a union of plain data: zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = index.cast_signed();
    // SAFETY: SIOCGIFNAME reads the index from an `ifreq` and writes the name to
    // it, and nothing beyond; `request` is one and lives through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) };
    result == 0
}

//! Functions of a socket: options, waiting packets, inode, and whether an interface exists in its
//! network namespace.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Linux's `SO_NETNS_COOKIE`, which the libc crate lacks.
const SO_NETNS_COOKIE: c_int = 71;

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

/// Makes packets that the socket sends to IPv4 multicast groups leave through the interface.
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

/// Whether the socket's network namespace has an interface with this index.
pub(crate) fn interface_exists(fd: BorrowedFd<'_>, index: u32) -> bool {
    // SAFETY: a C struct of bytes and a union of plain data: zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = index.cast_signed();
    // SAFETY: SIOCGIFNAME reads the index from an `ifreq` and writes the name to
    // it, and nothing beyond; `request` is one and lives through the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) };
    result == 0
}

/// A number that differs between network namespaces; `None` before Linux 5.14.
pub(crate) fn namespace_of(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `cookie`, which has that size.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    (result == 0).then_some(cookie)
}

/// Attaches a classic BPF program with a socket option.
pub(crate) fn attach_program(
    fd: BorrowedFd<'_>,
    option: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        // The kernel only reads the program.
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the pointer is to a `sock_fprog` that points to as many instructions as it
    // says; both live through the call, which copies them, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Discards the packets that wait in a socket, without reading them.
pub(crate) fn discard_waiting(fd: BorrowedFd<'_>) {
    // No socket's buffer holds this many packets.
    for _ in 0..1 << 20 {
        // SAFETY: the buffer has length 0, so the kernel writes nothing.
        let result = unsafe {
            libc::recv(
                fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        if result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
            return;
        }
    }
}

/// The inode number that `/proc` shows for an open file.
pub(crate) fn inode_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: a C struct of integers: zero is valid.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: the call writes one `stat` through the pointer, and `status` is one.
    if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut status) } == 0 {
        Ok(status.st_ino)
    } else {
        Err(io::Error::last_os_error())
    }
}

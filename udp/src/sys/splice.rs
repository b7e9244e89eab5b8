//! Sends datagrams that the kernel does not copy: references to pages go through a pipe into a
//! socket.
//!
//! `vmsplice` puts references to the pages into a pipe, and `splice` moves them to a connected
//! socket. Since Linux 6.5, a UDP socket attaches such pages to the packet (`MSG_SPLICE_PAGES`).
//! Nothing reports when the kernel has released them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// A pipe that carries one datagram at a time.
pub(crate) struct Pipe {
    write_end: OwnedFd,
    read_end: OwnedFd,
}

impl Pipe {
    /// Creates a pipe.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let mut ends = [-1; 2];
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the call writes two descriptors to the array, which has room for two.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), flags) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened both descriptors for this call.
        let [read_end, write_end] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self {
            write_end,
            read_end,
        })
    }

    /// Sends `bytes` as one datagram from a connected socket, without copying them. After an error,
    /// the pipe may hold part of the bytes and can't be used any more.
    ///
    /// # Errors
    /// The kernel's error. `WouldBlock` if the socket's send buffer is full; `WriteZero` if the
    /// pipe is too small for the datagram, or the socket took only part of it.
    pub(crate) fn send(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
        let vector = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: the vector points to bytes that live through the call. The kernel takes
        // references to their pages, which outlive the mapping, and only reads them.
        let taken = unsafe {
            libc::vmsplice(
                self.write_end.as_fd().as_raw_fd(),
                &raw const vector,
                1,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        check_complete(taken, bytes.len())?;
        // SAFETY: the call moves references within the kernel; no offsets are given.
        let sent = unsafe {
            libc::splice(
                self.read_end.as_fd().as_raw_fd(),
                ptr::null_mut(),
                to.as_raw_fd(),
                ptr::null_mut(),
                bytes.len(),
                libc::SPLICE_F_NONBLOCK,
            )
        };
        check_complete(sent, bytes.len())
    }
}

/// Checks that a call took all bytes.
fn check_complete(taken: isize, expected: usize) -> io::Result<()> {
    match usize::try_from(taken) {
        Ok(taken) if taken == expected => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

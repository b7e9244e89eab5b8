//! Receives descriptors over a Unix socket.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// The maximum number of descriptors in a message (the kernel's `SCM_MAX_FD`).
const MAX_DESCRIPTORS: usize = 253;

/// What came with one receive.
#[derive(Debug)]
pub(crate) struct Received {
    /// The number of bytes.
    pub(crate) count: usize,
    /// The descriptors, in the sender's order.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether descriptors are missing, because this process is out of descriptors.
    pub(crate) is_incomplete: bool,
}

/// Room for the control messages, aligned as their headers are.
#[repr(C)]
union Control {
    _header: libc::cmsghdr,
    _bytes: [u8; 64 + MAX_DESCRIPTORS * size_of::<RawFd>()],
}

/// Receives bytes, and the descriptors that came with them, also those of a message whose
/// descriptors did not all fit: the caller owns whatever the kernel has created.
pub(crate) fn receive(from: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Received> {
    // SAFETY: plain bytes.
    let mut control: Control = unsafe { zeroed() };
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: a C struct of integers and pointers: zero is valid.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the header points to `bytes` and `control`, with their lengths, and all live through
    // the call.
    let count = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Received {
        count: count.cast_unsigned(),
        descriptors: descriptors(&header),
        is_incomplete: header.msg_flags & libc::MSG_CTRUNC != 0,
    })
}

/// The descriptors in the control messages of a header that `recvmsg` has filled in.
fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: the header is one that the kernel has filled in.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: the kernel wrote a control message there.
        let message = unsafe { &*next };
        if (message.cmsg_level, message.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: as above; the result is only an address.
            let first: *const RawFd = unsafe { libc::CMSG_DATA(next) }.cast();
            let bytes = (message.cmsg_len as usize).saturating_sub(first as usize - next as usize);
            for at in 0..bytes / size_of::<RawFd>() {
                // SAFETY: the message has as many descriptors. The kernel has just created them for
                // this process, and nothing else uses them.
                found.push(unsafe { OwnedFd::from_raw_fd(ptr::read_unaligned(first.add(at))) });
            }
        }
        // SAFETY: both are the kernel's.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    found
}

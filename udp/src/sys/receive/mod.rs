//! Receives several datagrams, or bundles of datagrams, with one system call.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::address::RawAddress;

#[cfg(test)]
mod tests;

/// The maximum number of bundles in one system call.
pub(crate) const RECEIVE_BATCH: usize = 16;

/// Size of the buffer for one bundle, in bytes. No UDP datagram and no bundle is longer.
pub(crate) const BUNDLE_BYTES: usize = 1 << 16;

/// Size of the buffer for control messages, in bytes. The messages for traffic class and segment
/// size take 48. The rest is for messages that a system policy may add.
const CONTROL_BYTES: usize = 192;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

struct Parts {
    name: RawAddress,
    vector: libc::iovec,
    control: Control,
}

/// The memory of a bundle. It begins on a page boundary, as datagrams do that were sent without a copy.
/// Some processors (EPYC with FSRM) copy with `rep movsb`, as the kernel does, up to 15 times slower
/// where the destination's offset in its page is 1 to 15 bytes behind the source's.
#[repr(C, align(4096))]
struct Buffer([u8; BUNDLE_BYTES]);

/// One datagram, or several consecutive datagrams from one sender. They have one length, except
/// that the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bundle<'a> {
    pub(crate) bytes: &'a [u8],
    /// The sender's address and port, if the kernel reported them.
    pub(crate) from: Option<(IpAddr, u16)>,
    pub(crate) traffic_class: u8,
    /// Length of each datagram, in bytes; `None` if the bundle is one datagram.
    pub(crate) segment: Option<usize>,
    /// Whether the datagram was longer than the buffer.
    pub(crate) truncated: bool,
}

/// Buffers for a batch of bundles, allocated once.
pub(crate) struct ReceiveRing {
    buffers: Box<[Buffer]>,
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[Parts]>,
    filled: usize,
}

// SAFETY: only the raw pointers in the headers and vectors keep the type from being `Send`. Each
// call that passes them to the kernel writes them first, and nothing else dereferences them.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    pub(crate) fn new() -> Self {
        // SAFETY: all are C structs of integers and pointers and an array of
        // bytes: zero is a valid value for each.
        let (header, part) = unsafe { (|| zeroed::<libc::mmsghdr>(), || zeroed::<Parts>()) };
        // SAFETY: as above.
        let buffers = unsafe { Box::<[Buffer]>::new_zeroed_slice(RECEIVE_BATCH).assume_init() };
        Self {
            buffers,
            headers: (0..RECEIVE_BATCH).map(|_| header()).collect(),
            parts: (0..RECEIVE_BATCH).map(|_| part()).collect(),
            filled: 0,
        }
    }

    /// Receives up to `count` bundles (at least 1, at most [`RECEIVE_BATCH`]) and returns the
    /// number received. Never blocks.
    ///
    /// # Errors
    /// The kernel's error; `WouldBlock` if nothing has arrived.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let count = count.clamp(1, RECEIVE_BATCH);
        self.filled = 0;
        self.prepare_headers(count);
        let fd = fd.as_raw_fd();
        // `recvmsg` costs less than a `recvmmsg` for one datagram. A larger batch would look for a
        // second datagram, often in vain, before it returns the first.
        //
        // SAFETY (both calls): `prepare_headers` filled the first `count` headers just now
        // with pointers into buffers and parts, all owned by `self` and not
        // otherwise borrowed, and with the lengths of the buffers that they point to.
        if count == 1 {
            let header = &mut self.headers[0];
            // SAFETY: see above.
            let len = unsafe { libc::recvmsg(fd, &raw mut header.msg_hdr, libc::MSG_DONTWAIT) };
            header.msg_len = u32::try_from(len).map_err(|_| io::Error::last_os_error())?;
            self.filled = 1;
        } else {
            // SAFETY: see above; no timeout is given.
            let received = unsafe {
                libc::recvmmsg(
                    fd,
                    self.headers.as_mut_ptr(),
                    count as u32,
                    libc::MSG_DONTWAIT as _,
                    ptr::null_mut(),
                )
            };
            let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
            self.filled = received.min(count);
        }
        Ok(self.filled)
    }

    /// Bundle `index` of the last receive; `None` if that call received fewer bundles.
    #[allow(
        clippy::unnecessary_cast,
        reason = "musl has u32 where glibc has usize"
    )]
    pub(crate) fn bundle(&self, index: usize) -> Option<Bundle<'_>> {
        if index >= self.filled {
            return None;
        }
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(BUNDLE_BYTES);
        let mut bundle = Bundle {
            bytes: &self.buffers[index].0[..len],
            from: self.parts[index].name.get(header.msg_hdr.msg_namelen),
            traffic_class: 0,
            segment: None,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
        let control = &self.parts[index].control.0;
        let len = (header.msg_hdr.msg_controllen as usize).min(CONTROL_BYTES);
        read_control(&control[..len], &mut bundle);
        Some(bundle)
    }

    /// Points the first `count` headers to their buffers.
    fn prepare_headers(&mut self, count: usize) {
        let slots = self.headers.iter_mut().zip(&mut self.parts);
        for ((header, parts), buffer) in slots.zip(&mut self.buffers).take(count) {
            parts.vector.iov_base = buffer.0.as_mut_ptr().cast();
            parts.vector.iov_len = buffer.0.len();
            let to_kernel = &mut header.msg_hdr;
            to_kernel.msg_name = (&raw mut parts.name).cast();
            to_kernel.msg_namelen = RawAddress::SIZE;
            to_kernel.msg_iov = &raw mut parts.vector;
            to_kernel.msg_iovlen = 1;
            to_kernel.msg_control = (&raw mut parts.control.0).cast();
            to_kernel.msg_controllen = CONTROL_BYTES as _;
            to_kernel.msg_flags = 0;
            header.msg_len = 0;
        }
    }
}

/// Reads the control messages that the kernel wrote. With any content, it stays within the bytes
/// and terminates.
#[allow(
    clippy::unnecessary_cast,
    reason = "musl has u32 where glibc has usize"
)]
fn read_control(mut control: &[u8], bundle: &mut Bundle<'_>) {
    // SAFETY: CMSG_LEN only computes.
    let data_at = unsafe { libc::CMSG_LEN(0) } as usize;
    while control.len() >= size_of::<libc::cmsghdr>() {
        // SAFETY: the slice holds a whole header, read unaligned; all its fields
        // are integers.
        let header = unsafe { control.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
        let len = header.cmsg_len as usize;
        if len < data_at || len > control.len() {
            return;
        }
        let value = integer(&control[data_at..len]);
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                bundle.traffic_class = (value & 0xff) as u8;
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                bundle.segment = usize::try_from(value).ok().filter(|&bytes| bytes > 0);
            }
            _ => {}
        }
        let next = len.next_multiple_of(size_of::<usize>());
        control = control.get(next..).unwrap_or_default();
    }
}

/// A value that is an `int` or, for IPv4's type of service, a byte.
fn integer(data: &[u8]) -> c_int {
    match data.first_chunk() {
        Some(bytes) => c_int::from_ne_bytes(*bytes),
        None => data.first().copied().map_or(0, c_int::from),
    }
}

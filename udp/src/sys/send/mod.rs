//! Sends several datagrams with one system call.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::address::RawAddress;

#[cfg(test)]
mod tests;

/// The maximum number of datagrams in one system call.
pub(crate) const SEND_BATCH: usize = 64;

/// Size of the buffer for control messages, in bytes. It fits three messages (class, hop limit,
/// segment size).
const CONTROL_BYTES: usize = 96;

/// One datagram to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) bytes: &'a [u8],
    /// The destination's address and port; `None` if the socket is connected to it.
    pub(crate) to: Option<(IpAddr, u16)>,
    /// The interface, for link-local destinations.
    pub(crate) scope: u32,
    /// The traffic class; `None` selects the socket's. Set only with a destination.
    pub(crate) traffic_class: Option<u8>,
    /// The hop limit; 0 selects the socket's. Set only with a destination.
    pub(crate) hop_limit: u8,
    /// If set, the kernel cuts `bytes` into packets of this length. 0 means that the kernel must
    /// not cut, even if the socket has a segment size.
    pub(crate) segment: Option<u16>,
}

/// Control messages under construction.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}

impl Control {
    fn push<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        let payload = size_of::<T>() as u32;
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, len) = unsafe { (libc::CMSG_SPACE(payload) as usize, libc::CMSG_LEN(payload)) };
        assert!(self.len + space <= CONTROL_BYTES, "room for three messages");
        // SAFETY: `space` bytes from `len` on are inside the array by the check
        // above, and hold header and value by CMSG_SPACE's definition. The array
        // is aligned for `cmsghdr` and every message before took a multiple of
        // that alignment; the value is written unaligned.
        unsafe {
            let header = self
                .bytes
                .as_mut_ptr()
                .add(self.len)
                .cast::<libc::cmsghdr>();
            let mut filled: libc::cmsghdr = zeroed();
            filled.cmsg_level = level;
            filled.cmsg_type = kind;
            filled.cmsg_len = len as _;
            header.write(filled);
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.len += space;
    }

    fn fill(&mut self, datagram: &Outgoing<'_>) {
        self.len = 0;
        // rule: CA17-4-dscp, CA17-13-dscp, CA17-9-time-to-live, CA17-17-hop-limit
        let (level, class, hops) = match datagram.to {
            Some((IpAddr::V6(_), _)) => {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
            }
            _ => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL),
        };
        if let Some(traffic_class) = datagram.traffic_class {
            self.push::<c_int>(level, class, traffic_class.into());
        }
        if datagram.hop_limit != 0 {
            self.push::<c_int>(level, hops, datagram.hop_limit.into());
        }
        if let Some(segment) = datagram.segment {
            self.push::<u16>(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
    }
}

/// The data that the kernel reads for one datagram besides its bytes.
struct Parts {
    name: RawAddress,
    vector: libc::iovec,
    control: Control,
}

/// Headers for a batch of datagrams, allocated once.
pub(crate) struct SendHeaders {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[Parts]>,
}

// SAFETY: only the raw pointers in the headers and vectors keep the type from being `Send`. Each
// call that passes them to the kernel writes them first, and nothing else dereferences them.
unsafe impl Send for SendHeaders {}

impl SendHeaders {
    pub(crate) fn new() -> Self {
        // SAFETY: all are C structs of integers and pointers, an array of bytes
        // and a length: zero is a valid value for each.
        let (header, part) = unsafe { (|| zeroed::<libc::mmsghdr>(), || zeroed::<Parts>()) };
        Self {
            headers: (0..SEND_BATCH).map(|_| header()).collect(),
            parts: (0..SEND_BATCH).map(|_| part()).collect(),
        }
    }

    /// Sends the first [`SEND_BATCH`] of `datagrams` and returns the number that the kernel
    /// accepted: at least 1, and fewer than given if it refused the next.
    ///
    /// # Errors
    /// The kernel's error on the first datagram.
    pub(crate) fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = Outgoing<'a>>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for ((header, parts), datagram) in
            self.headers.iter_mut().zip(&mut self.parts).zip(datagrams)
        {
            let name_len = datagram.to.map_or(0, |(dst, port)| {
                let (name, name_len) = RawAddress::new(dst, port, datagram.scope);
                parts.name = name;
                name_len
            });
            parts.vector.iov_base = datagram.bytes.as_ptr().cast_mut().cast();
            parts.vector.iov_len = datagram.bytes.len();
            parts.control.fill(&datagram);
            let to_kernel = &mut header.msg_hdr;
            to_kernel.msg_name = match name_len {
                0 => ptr::null_mut(),
                _ => (&raw mut parts.name).cast(),
            };
            to_kernel.msg_namelen = name_len;
            to_kernel.msg_iov = &raw mut parts.vector;
            to_kernel.msg_iovlen = 1;
            to_kernel.msg_control = match parts.control.len {
                0 => ptr::null_mut(),
                _ => (&raw mut parts.control.bytes).cast(),
            };
            to_kernel.msg_controllen = parts.control.len as _;
            count += 1;
        }
        // SAFETY: the first `count` headers were filled just now with pointers to
        // the parts, which `self` owns, and to bytes that live as long as 'a,
        // which outlives this call. The kernel reads all of it, within the
        // lengths given, and writes only each header's `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Sends one packet with the socket's traffic class and hop limit. This is the fastest way to send
/// a small packet. Without a destination, the socket must be connected.
///
/// # Errors
/// The kernel's error.
pub(crate) fn send_plain(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<(IpAddr, u16)>,
    scope: u32,
) -> io::Result<()> {
    let name = to.map(|(dst, port)| RawAddress::new(dst, port, scope));
    let (name, name_len) = match &name {
        Some((name, len)) => (ptr::from_ref(name), *len),
        None => (ptr::null(), 0),
    };
    // SAFETY: bytes and name live through the call, which only reads them, within
    // the lengths given.
    let sent = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            name.cast(),
            name_len,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

//! Sending and receiving.

use super::{OrErrno, endpoints, length};
use crate::prelude::*;
use roce_rsockets as rs;
use std::io::{IoSlice, IoSliceMut};

/// The most elements of an `iovec` array, as Linux limits them.
const IOV_MAX: usize = 1024;

/// The largest transfer of a call, as Linux limits it.
const MAX_TRANSFER: usize = 0x7fff_f000;

pub(crate) extern "C" fn recv(fd: c_int, buffer: Out<u8>, len: usize, flags: c_int) -> isize {
    guard::value("rrecv", -1, || {
        let mut slices = [IoSliceMut::new(bytes_mut(buffer, len)?)];
        receive(fd, &mut slices, flags)
    })
}

pub(crate) extern "C" fn recvfrom(
    fd: c_int,
    buffer: Out<u8>,
    len: usize,
    flags: c_int,
    address: Out<u8>,
    address_len: Out<u32>,
) -> isize {
    guard::value("rrecvfrom", -1, || {
        let mut slices = [IoSliceMut::new(bytes_mut(buffer, len)?)];
        let received = receive_from(fd, &mut slices, flags)?;
        if !address.is_null() {
            match received.from {
                Some(peer) => endpoints::write(peer, address, address_len)?,
                None => address_len.put(0)?,
            }
        }
        Ok(told(&received, flags))
    })
}

pub(crate) extern "C" fn recvmsg(fd: c_int, message: Out<libc::msghdr>, flags: c_int) -> isize {
    guard::value("rrecvmsg", -1, || {
        let header = message.get()?;
        let vectors = In::<libc::iovec>::at(header.msg_iov as u64);
        let mut slices = slices_mut(vectors, header.msg_iovlen)?;
        let received = receive_from(fd, &mut slices, flags)?;
        header.msg_controllen = 0;
        header.msg_flags = 0;
        if received.whole > received.len {
            header.msg_flags |= libc::MSG_TRUNC;
        }
        // TCP sockets name no peer here.
        let from = received.from.filter(|_| rs::is_datagram(fd));
        match from {
            Some(peer) if !header.msg_name.is_null() => {
                let name = Out::allocated(header.msg_name.cast());
                let len = Out::allocated(&raw mut header.msg_namelen);
                endpoints::write(peer, name, len)?;
            }
            _ => header.msg_namelen = 0,
        }
        Ok(told(&received, flags))
    })
}

pub(crate) extern "C" fn read(fd: c_int, buffer: Out<u8>, len: usize) -> isize {
    recv(fd, buffer, len, 0)
}

pub(crate) extern "C" fn readv(fd: c_int, vectors: In<libc::iovec>, count: c_int) -> isize {
    guard::value("rreadv", -1, || {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        receive(fd, &mut slices_mut(vectors, count)?, 0)
    })
}

pub(crate) extern "C" fn send(fd: c_int, buffer: In<u8>, len: usize, flags: c_int) -> isize {
    guard::value("rsend", -1, || {
        let slices = [IoSlice::new(bytes(buffer, len)?)];
        transmit(fd, &slices, flags)
    })
}

pub(crate) extern "C" fn sendto(
    fd: c_int,
    buffer: In<u8>,
    len: usize,
    flags: c_int,
    address: In<u8>,
    address_len: u32,
) -> isize {
    guard::value("rsendto", -1, || {
        let slices = [IoSlice::new(bytes(buffer, len)?)];
        transmit_to(fd, &slices, flags, address, address_len)
    })
}

pub(crate) extern "C" fn sendmsg(fd: c_int, message: In<libc::msghdr>, flags: c_int) -> isize {
    guard::value("rsendmsg", -1, || {
        let header = message.get()?;
        if header.msg_controllen != 0 && !header.msg_control.is_null() {
            return Err(with_reason(Errno::EOPNOTSUPP, || {
                "rsockets carry no control messages".to_owned()
            }));
        }
        let vectors = In::<libc::iovec>::at(header.msg_iov as u64);
        let slices = slices(vectors, header.msg_iovlen)?;
        if !rs::is_datagram(fd) {
            // TCP sockets ignore the name.
            return transmit(fd, &slices, flags);
        }
        let name = In::at(header.msg_name as u64);
        transmit_to(fd, &slices, flags, name, header.msg_namelen)
    })
}

pub(crate) extern "C" fn write(fd: c_int, buffer: In<u8>, len: usize) -> isize {
    send(fd, buffer, len, 0)
}

pub(crate) extern "C" fn writev(fd: c_int, vectors: In<libc::iovec>, count: c_int) -> isize {
    guard::value("rwritev", -1, || {
        let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
        transmit(fd, &slices(vectors, count)?, 0)
    })
}

pub(crate) extern "C" fn iomap(
    fd: c_int,
    buffer: Out<u8>,
    len: usize,
    protection: c_int,
    _flags: c_int,
    offset: i64,
) -> i64 {
    guard::value("riomap", -1, || {
        if protection & !libc::PROT_WRITE != 0 {
            return Err(with_reason(Errno::EINVAL, || {
                format!("protection {protection:#x} is neither PROT_NONE nor PROT_WRITE")
            }));
        }
        let address = buffer.input().as_ptr().cast_mut();
        // As the manual says, an offset of -1 lets the library choose.
        let offset = if offset == -1 { address as i64 } else { offset };
        let remote = protection & libc::PROT_WRITE != 0;
        // SAFETY: the program passes its memory, and keeps it until it unmaps it: riomap(3).
        let mapped = unsafe { rs::map(fd, address, len, offset as u64, remote) };
        mapped.or_errno()?;
        Ok(offset)
    })
}

pub(crate) extern "C" fn iounmap(fd: c_int, buffer: Out<u8>, len: usize) -> c_int {
    guard::minus_one("riounmap", || {
        let address = buffer.input().as_ptr().cast_mut();
        rs::unmap(fd, address, len).or_errno()
    })
}

pub(crate) extern "C" fn iowrite(
    fd: c_int,
    buffer: In<u8>,
    len: usize,
    offset: i64,
    flags: c_int,
) -> isize {
    guard::value("riowrite", -1, || {
        let slices = [IoSlice::new(bytes(buffer, len)?)];
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        let written = rs::write_mapped(fd, &slices, offset as u64, dont_wait);
        written.or_errno().map(length)
    })
}

fn receive(fd: c_int, slices: &mut [IoSliceMut<'_>], flags: c_int) -> Result<isize, Errno> {
    if flags & libc::MSG_TRUNC != 0 {
        let received = receive_from(fd, slices, flags)?;
        return Ok(told(&received, flags));
    }
    rs::receive(fd, slices, receive_flags(flags)?)
        .or_errno()
        .map(length)
}

fn receive_from(
    fd: c_int,
    slices: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Result<rs::Received, Errno> {
    rs::receive_from(fd, slices, receive_flags(flags)?).or_errno()
}

fn receive_flags(flags: c_int) -> Result<rs::ReceiveFlags, Errno> {
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(rs::ReceiveFlags {
        peek: flags & libc::MSG_PEEK != 0,
        wait_all: flags & libc::MSG_WAITALL != 0,
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
    })
}

/// The number of bytes that a call returns: with MSG_TRUNC, those of the whole datagram.
fn told(received: &rs::Received, flags: c_int) -> isize {
    length(match flags & libc::MSG_TRUNC {
        0 => received.len,
        _ => received.whole,
    })
}

/// Sends to an address, if the program passes one. Streams take none.
fn transmit_to(
    fd: c_int,
    slices: &[IoSlice<'_>],
    flags: c_int,
    address: In<u8>,
    len: u32,
) -> Result<isize, Errno> {
    if !rs::is_datagram(fd) && (!address.is_null() || len != 0) {
        return Err(Errno::EISCONN);
    }
    if address.is_null() {
        return transmit(fd, slices, flags);
    }
    let dont_wait = dont_wait(flags)?;
    let sent = rs::send_to(fd, slices, endpoints::read(address, len)?, dont_wait);
    sent.or_errno().map(length)
}

fn transmit(fd: c_int, slices: &[IoSlice<'_>], flags: c_int) -> Result<isize, Errno> {
    let sent = rs::send(fd, slices, dont_wait(flags)?);
    sent.or_errno().map(length)
}

/// Whether the flags of a call that sends let it fail rather than wait.
fn dont_wait(flags: c_int) -> Result<bool, Errno> {
    match flags & libc::MSG_OOB {
        0 => Ok(flags & libc::MSG_DONTWAIT != 0),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Bytes that the program passes.
fn bytes<'a>(buffer: In<u8>, len: usize) -> Result<&'a [u8], Errno> {
    let slice = buffer.slice(len.min(MAX_TRANSFER));
    slice.map_err(|_| Errno::EFAULT)
}

/// Room that the program passes.
fn bytes_mut<'a>(buffer: Out<u8>, len: usize) -> Result<&'a mut [u8], Errno> {
    let slice = buffer.slice(len.min(MAX_TRANSFER));
    slice.map_err(|_| Errno::EFAULT)
}

fn vectors<'a>(vectors: In<libc::iovec>, count: usize) -> Result<&'a [libc::iovec], Errno> {
    if count > IOV_MAX {
        return Err(Errno::EMSGSIZE);
    }
    vectors.slice(count).map_err(|_| Errno::EFAULT)
}

fn slices<'a>(array: In<libc::iovec>, count: usize) -> Result<Vec<IoSlice<'a>>, Errno> {
    let each = vectors(array, count)?.iter();
    each.map(|vector| {
        let base = In::at(vector.iov_base as u64);
        bytes(base, vector.iov_len).map(IoSlice::new)
    })
    .collect()
}

fn slices_mut<'a>(array: In<libc::iovec>, count: usize) -> Result<Vec<IoSliceMut<'a>>, Errno> {
    let each = vectors(array, count)?.iter();
    each.map(|vector| {
        let base = Out::allocated(vector.iov_base.cast());
        bytes_mut(base, vector.iov_len).map(IoSliceMut::new)
    })
    .collect()
}

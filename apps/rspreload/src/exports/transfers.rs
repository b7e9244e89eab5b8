//! Sending and receiving.

use super::{handle_or_forward, kind};
use crate::errno::Errno;
use crate::kinds::Kind;
use crate::socket::{Phase, Socket};
use crate::{claim, descriptors, io, real};
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

replace! {
    fn read(fd: c_int, to: *mut c_void, size: size_t) -> ssize_t;
    transfer(fd, || real::read(fd, to, size), |socket| io::receive(socket, &io::buffer(to, size), 0))

    fn __read_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t) -> ssize_t;
    if size > room { real::__read_chk(fd, to, size, room) } else { read(fd, to, size) }

    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t;
    transfer(fd, || real::readv(fd, to, count), |socket| {
        io::receive(socket, io::buffers(to, count.max(0) as usize)?, 0)
    })

    fn preadv2(fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    if offset == -1 && kind(fd) == Kind::Socket {
        readv(fd, to, count)
    } else {
        real::preadv2(fd, to, count, offset, flags)
    }

    fn recv(fd: c_int, to: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    transfer(fd, || real::recv(fd, to, size, flags), |socket| io::receive(socket, &io::buffer(to, size), flags))

    fn __recv_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t;
    if size > room { real::__recv_chk(fd, to, size, room, flags) } else { recv(fd, to, size, flags) }

    fn recvfrom(fd: c_int, to: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    transfer(fd, || real::recvfrom(fd, to, size, flags, address, address_size), |socket| {
        let received = io::receive(socket, &io::buffer(to, size), flags)?;
        clear_address_size(address_size);
        Ok(received)
    })

    fn __recvfrom_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    if size > room {
        real::__recvfrom_chk(fd, to, size, room, flags, address, address_size)
    } else {
        recvfrom(fd, to, size, flags, address, address_size)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    transfer(fd, || {
        let received = real::recvmsg(fd, message, flags);
        if received >= 0 {
            descriptors::register_passed(message);
        }
        received
    }, |socket| receive_message(socket, message, flags))

    fn recvmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    transfer_messages(fd, || {
        let received = real::recvmmsg(fd, all, count, flags, timeout);
        for index in 0..received.max(0) as usize {
            descriptors::register_passed(&raw const (*all.add(index)).msg_hdr);
        }
        received
    }, count, |socket, index| {
        let message = all.add(index);
        // Only the first message may block.
        let flags = if index > 0 { flags | libc::MSG_DONTWAIT } else { flags };
        let received = receive_message(socket, &raw mut (*message).msg_hdr, flags)?;
        (*message).msg_len = received as c_uint;
        Ok(true)
    })

    fn write(fd: c_int, from: *const c_void, size: size_t) -> ssize_t;
    transfer(fd, || real::write(fd, from, size), |socket| io::send(socket, &io::buffer(from, size), 0))

    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t;
    transfer(fd, || real::writev(fd, from, count), |socket| {
        io::send(socket, io::buffers(from, count.max(0) as usize)?, 0)
    })

    fn pwritev2(fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    if offset == -1 && kind(fd) == Kind::Socket {
        writev(fd, from, count)
    } else {
        real::pwritev2(fd, from, count, offset, flags)
    }

    fn send(fd: c_int, from: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    transfer(fd, || real::send(fd, from, size, flags), |socket| io::send(socket, &io::buffer(from, size), flags))

    fn sendto(fd: c_int, from: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, address_size: socklen_t) -> ssize_t;
    transfer(fd, || real::sendto(fd, from, size, flags, address, address_size), |socket| {
        io::send(socket, &io::buffer(from, size), flags)
    })

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    transfer(fd, || real::sendmsg(fd, message, flags), |socket| send_message(socket, message, flags))

    fn sendmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    transfer_messages(fd, || real::sendmmsg(fd, all, count, flags), count, |socket, index| {
        let message = all.add(index);
        let sent = send_message(socket, &raw const (*message).msg_hdr, flags)?;
        (*message).msg_len = sent as c_uint;
        Ok(sent == io::total(io::buffers((*message).msg_hdr.msg_iov, (*message).msg_hdr.msg_iovlen)?)?)
    })

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    transfer_file(to, || real::sendfile(to, from, offset, size), from, offset, size)

    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    transfer_file(to, || real::sendfile64(to, from, offset, size), from, offset, size)

    fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint) -> ssize_t; {
        let real = || real::splice(from, from_offset, to, to_offset, size, flags);
        // Programs fall back to copying.
        let refuse = |_: &Arc<Socket>| Err(Errno(libc::EINVAL));
        if kind(from) == Kind::Socket {
            transfer(from, real, refuse)
        } else {
            transfer(to, real, refuse)
        }
    }
}

/// Runs a call that transfers bytes: `ours` for a connection over RDMA, otherwise `real`.
fn transfer(
    fd: c_int,
    real: impl Fn() -> ssize_t,
    ours: impl FnOnce(&Arc<Socket>) -> Result<usize, Errno>,
) -> ssize_t {
    if kind(fd) != Kind::Socket {
        return real();
    }
    handle_or_forward(real, || match claim::resolve_active(fd) {
        Some(socket) if socket.phase() != Phase::Listening => {
            ours(&socket).map(|count| Some(count.cast_signed()))
        }
        _ => Ok(None),
    })
}

/// Runs a call that transfers up to `count` messages and returns their number, or -1 with `errno` set.
/// `one` transfers a message over RDMA and returns whether another may follow.
fn transfer_messages(
    fd: c_int,
    real: impl Fn() -> c_int,
    count: c_uint,
    mut one: impl FnMut(&Arc<Socket>, usize) -> Result<bool, Errno>,
) -> c_int {
    if kind(fd) != Kind::Socket {
        return real();
    }
    handle_or_forward(real, || {
        let Some(socket) =
            claim::resolve_active(fd).filter(|socket| socket.phase() != Phase::Listening)
        else {
            return Ok(None);
        };
        for done in 0..count as usize {
            match one(&socket, done) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(done as c_int + 1)),
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(Some(done as c_int)),
            }
        }
        Ok(Some(count as c_int))
    })
}

/// Receives bytes of the stream as one message without an address.
unsafe fn receive_message(
    socket: &Arc<Socket>,
    message: *mut msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller promises the message.
    unsafe {
        let to = io::buffers((*message).msg_iov, (*message).msg_iovlen)?;
        let received = io::receive(socket, to, flags)?;
        (*message).msg_namelen = 0;
        (*message).msg_controllen = 0;
        (*message).msg_flags = 0;
        Ok(received)
    }
}

unsafe fn send_message(
    socket: &Arc<Socket>,
    message: *const msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller promises the message.
    unsafe {
        let from = io::buffers((*message).msg_iov, (*message).msg_iovlen)?;
        io::send(socket, from, flags)
    }
}

unsafe fn clear_address_size(size: *mut socklen_t) {
    if !size.is_null() {
        // SAFETY: the caller promises that it is writable.
        unsafe { size.write(0) };
    }
}

unsafe fn transfer_file(
    to: c_int,
    real: impl Fn() -> ssize_t,
    from: c_int,
    offset: *mut off_t,
    size: size_t,
) -> ssize_t {
    transfer(to, real, |socket| {
        // SAFETY: the caller promises the offset.
        unsafe { io::sendfile(socket, from, offset, size) }.map(isize::cast_unsigned)
    })
}

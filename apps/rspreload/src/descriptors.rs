//! Tracks descriptors as they are created, duplicated and closed.

use crate::errno::{self, Errno, Outcome, check};
use crate::inside::is_inside;
use crate::interest::Epoll;
use crate::kinds::{self, Kind};
use crate::socket::Socket;
use crate::{claim, hidden, io, listen, real, settings, table};
use libc::{c_long, c_ulong, c_void, msghdr};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Registers a new descriptor, or -1, from the kernel. A socket that is tracked under this number was
/// closed unseen and is removed. Hides the descriptor if the calling thread runs librdmacm.
pub(crate) fn register_new(fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    if is_inside() {
        return hidden::hide(fd);
    }
    if kinds::get(fd) != Kind::Other {
        errno::call((), || {
            drop(forget(fd));
            Ok(())
        });
    }
    fd
}

/// Registers `count` new descriptors.
///
/// # Safety
/// `all` points to `count` descriptors.
pub(crate) unsafe fn register_all(all: *mut c_int, count: usize) {
    for index in 0..count {
        // SAFETY: the caller promises them.
        unsafe {
            let fd = all.add(index);
            fd.write_unaligned(register_new(fd.read_unaligned()));
        }
    }
}

/// Registers both descriptors of a pair if `result` is 0.
///
/// # Safety
/// If `result` is 0, `pair` points to two descriptors.
pub(crate) unsafe fn register_pair(result: c_int, pair: *mut c_int) -> c_int {
    if result == 0 {
        // SAFETY: the caller promises two.
        unsafe { register_all(pair, 2) };
    }
    result
}

/// Registers the descriptors that came with a message.
///
/// # Safety
/// The kernel has filled the message.
pub(crate) unsafe fn register_passed(message: *const msghdr) {
    // SAFETY: the caller promises the message, with all that it points to.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = next.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let length = header.cmsg_len - libc::CMSG_LEN(0) as usize;
                register_all(libc::CMSG_DATA(next).cast(), length / size_of::<c_int>());
            }
            next = libc::CMSG_NXTHDR(message, next);
        }
    }
}

/// Registers a new socket, and tracks it if it is for TCP.
pub(crate) fn track_socket(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = register_new(fd);
    if fd < 0 || is_inside() {
        return fd;
    }
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let is_tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind & !flags == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    if is_tcp && !settings::get().is_off {
        let socket = Socket::new(domain, kind & libc::SOCK_NONBLOCK != 0);
        table::insert_socket(fd, Arc::new(socket));
    }
    fd
}

/// Registers and tracks a new epoll instance.
pub(crate) fn track_epoll(fd: c_int) -> c_int {
    let fd = register_new(fd);
    if fd >= 0 && !is_inside() && !settings::get().is_off {
        table::insert_epoll(fd, Arc::new(Epoll::default()));
    }
    fd
}

/// Closes a tracked descriptor.
pub(crate) fn close(fd: c_int) -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let real = || check(unsafe { real::close(fd) });
    if kinds::get(fd) == Kind::Hidden {
        if !is_inside() {
            return Err(Errno(libc::EBADF));
        }
        kinds::set(fd, Kind::Other);
        return real();
    }
    // Close the rsocket first: once the kernel's socket is closed, others may bind to its port.
    drop(forget(fd));
    real()
}

/// Removes a closed descriptor from all tables.
fn forget(fd: c_int) -> table::Removed {
    let removed = table::remove(fd);
    if let Some(socket) = &removed.socket {
        for (_, interest) in table::epolls() {
            interest.forget(fd);
        }
        if socket.fds.load(Ordering::Acquire) == 0 {
            claim::note_closed(socket);
        }
    }
    removed
}

/// `close_range` that skips hidden descriptors.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Outcome<c_int> {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 || first > last || is_inside() {
        // SAFETY: only numbers are passed.
        return check(unsafe { real::close_range(first, last, flags) });
    }
    let mut next = first;
    for (fd, kind) in kinds::marked(first, last) {
        if kind != Kind::Hidden {
            drop(forget(fd));
            continue;
        }
        if let Some(end) = fd.cast_unsigned().checked_sub(1).filter(|end| *end >= next) {
            // SAFETY: only numbers are passed.
            check(unsafe { real::close_range(next, end, flags) })?;
        }
        next = fd.cast_unsigned() + 1;
    }
    if next > last {
        return Ok(0);
    }
    // SAFETY: only numbers are passed.
    check(unsafe { real::close_range(next, last, flags) })
}

/// Registers a duplicate of a descriptor.
pub(crate) fn register_copy(from: c_int, to: c_int) -> c_int {
    let to = register_new(to);
    if to < 0 {
        return to;
    }
    if let Some(socket) = table::socket(from) {
        table::insert_socket(to, socket);
    } else if let Some(epoll) = table::epoll(from) {
        table::insert_epoll(to, epoll);
    }
    to
}

/// `dup2` or `dup3`, with `real` as the original.
pub(crate) fn copy_to(from: c_int, to: c_int, real: impl Fn() -> c_int) -> Outcome<c_int> {
    if from == to || is_inside() {
        return check(real());
    }
    if kinds::get(from) == Kind::Hidden || kinds::get(to) == Kind::Hidden {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: only numbers are passed.
    check(unsafe { real::fcntl(from, libc::F_GETFD, 0) })?;
    if kinds::get(to) != Kind::Other {
        drop(forget(to));
    }
    check(real()).map(|made| register_copy(from, made))
}

/// `fcntl`, with `real` as the original.
pub(crate) fn fcntl(
    fd: c_int,
    command: c_int,
    argument: c_long,
    real: impl Fn(c_long) -> c_int,
) -> Outcome<c_int> {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return check(real(argument)).map(|made| register_copy(fd, made));
    }
    let Some(socket) = table::socket(fd) else {
        return check(real(argument));
    };
    match command {
        libc::F_SETFL => {
            let is_nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
            let is_forced = socket.is_kernel_nonblocking.load(Ordering::Acquire);
            let forced = if is_forced { libc::O_NONBLOCK } else { 0 };
            let result = check(real(argument | c_long::from(forced)))?;
            socket
                .is_nonblocking
                .store(is_nonblocking, Ordering::Relaxed);
            Ok(result)
        }
        libc::F_GETFL => {
            let flags = check(real(argument))? & !libc::O_NONBLOCK;
            let is_set = c_int::from(socket.is_nonblocking());
            Ok(flags | (is_set * libc::O_NONBLOCK))
        }
        _ => check(real(argument)),
    }
}

/// `ioctl` of a socket, with `real` as the original.
///
/// # Safety
/// The argument has the type that the request expects.
pub(crate) unsafe fn ioctl(
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
    real: impl Fn() -> c_int,
) -> Outcome<c_int> {
    let Some(socket) = claim::resolve(fd) else {
        return check(real());
    };
    if request == libc::FIONBIO as c_ulong {
        if argument.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: the caller promises a number.
        let is_nonblocking = unsafe { argument.cast::<c_int>().read() } != 0;
        let is_forced = socket.is_kernel_nonblocking.load(Ordering::Acquire);
        listen::set_kernel_nonblocking(fd, is_nonblocking || is_forced)?;
        socket
            .is_nonblocking
            .store(is_nonblocking, Ordering::Relaxed);
        return Ok(0);
    }
    if request == libc::FIONREAD as c_ulong && socket.rs() >= 0 && !argument.is_null() {
        let count = io::readable(&socket)?;
        // SAFETY: the caller promises room for a number.
        unsafe { argument.cast::<c_int>().write(count as c_int) };
        return Ok(0);
    }
    check(real())
}

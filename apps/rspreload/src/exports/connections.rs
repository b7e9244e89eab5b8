//! Listening, connecting, names and options.

use super::{handle_or_forward, is_kernel_fd, kind};
use crate::address::Address;
use crate::errno::{Errno, call, check};
use crate::kinds::Kind;
use crate::options::End;
use crate::socket::{Phase, Socket};
use crate::{accept, cancel, claim, connect, descriptors, listen, options, rdmacm, real, table};
use libc::{sockaddr, socklen_t};
use std::ffi::{c_int, c_ulong, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

replace! {
    fn bind(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int;
    real::bind(fd, address, size)

    fn listen(fd: c_int, backlog: c_int) -> c_int; {
        let real = || real::listen(fd, backlog);
        match table::socket(fd) {
            Some(socket) if socket.phase() == Phase::Fresh => {
                call(-1, || listen::listen(fd, &socket, backlog, real))
            }
            _ => real(),
        }
    }

    fn accept(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    if is_kernel_fd(fd) { descriptors::register_new(real::accept(fd, address, size)) } else { accept_either(fd, address, size, 0) }

    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int;
    if is_kernel_fd(fd) {
        descriptors::register_new(real::accept4(fd, address, size, flags))
    } else {
        accept_either(fd, address, size, flags)
    }

    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int; {
        let real = || real::connect(fd, address, size);
        if is_kernel_fd(fd) {
            return real();
        }
        cancel::test();
        call(-1, || match claim::resolve(fd) {
            Some(socket) => connect::connect(fd, &socket, Address::read(address, size), real),
            None => check(real()),
        })
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int;
    with_connection(fd, || real::shutdown(fd, how), |socket| {
        if how != libc::SHUT_RD {
            socket.is_send_shut.store(true, Ordering::Release);
        }
        rdmacm::shutdown(socket.rs(), how).map(|()| 0)
    })

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int; {
        let real = || real::ioctl(fd, request, argument);
        if kind(fd) != Kind::Socket {
            return real();
        }
        call(-1, || descriptors::ioctl(fd, request, argument, real))
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    call(-1, || options::get_name(fd, End::Own, address, size, || real::getsockname(fd, address, size)))

    fn getpeername(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    call(-1, || options::get_name(fd, End::Peer, address, size, || real::getpeername(fd, address, size)))

    fn getsockopt(fd: c_int, level: c_int, name: c_int, to: *mut c_void, size: *mut socklen_t) -> c_int;
    call(-1, || options::get(fd, level, name, to, size, || real::getsockopt(fd, level, name, to, size)))

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) -> c_int;
    call(-1, || options::set(fd, level, name, value, size, || real::setsockopt(fd, level, name, value, size)))
}

/// `accept` at a socket that may listen over RDMA.
unsafe fn accept_either(
    fd: c_int,
    address: *mut sockaddr,
    size: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller promises the buffer.
    let real = || unsafe { descriptors::register_new(real::accept4(fd, address, size, flags)) };
    handle_or_forward(real, || match claim::resolve_for_wait(fd) {
        // SAFETY: as above.
        Some(socket) if socket.is_kernel_nonblocking.load(Ordering::Acquire) => unsafe {
            accept::accept(fd, &socket, address, size, flags).map(Some)
        },
        // It listens over TCP only.
        _ => Ok(None),
    })
}

/// Calls `ours` for a connection over RDMA and `real` for any other descriptor.
fn with_connection(
    fd: c_int,
    real: impl Fn() -> c_int,
    ours: impl FnOnce(&Arc<Socket>) -> Result<c_int, Errno>,
) -> c_int {
    if kind(fd) != Kind::Socket {
        return real();
    }
    call(-1, || match claim::resolve_active(fd) {
        Some(socket) if socket.phase() == Phase::Connected => ours(&socket),
        _ => check(real()),
    })
}

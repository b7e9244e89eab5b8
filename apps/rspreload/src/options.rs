//! Socket options and names. The kernel's socket stores the options, so that a program reads back what
//! it set; this module answers for options that depend on the connection.

use crate::address::Address;
use crate::errno::{Errno, Outcome, check};
use crate::socket::{Phase, Socket};
use crate::{claim, connect, names, option_copy, rdmacm};
use libc::{c_void, linger, sockaddr, socklen_t, timeval};
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// `TCP_INFO`: the state and the maximum segment sizes, with their offsets.
const ESTABLISHED: u8 = 1;
const STATE_AT: usize = 0;
const SEGMENTS_AT: [usize; 2] = [16, 20];
const SEGMENT: u32 = 1 << 16;

/// Which address of a connection.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Own,
    Peer,
}

/// The address of a connection over RDMA; `None` if the kernel answers.
fn address(socket: &Socket, end: End) -> Option<Outcome<Address>> {
    let found = match (socket.phase(), end) {
        (Phase::Connected, End::Own) => rdmacm::own_name(socket.rs()),
        (Phase::Connected, End::Peer) => rdmacm::peer_name(socket.rs()),
        (Phase::Connecting, End::Own) => rdmacm::own_name(socket.rs()),
        _ => return None,
    };
    Some(found.map(|address| address.in_domain(socket.domain)))
}

/// `getsockname` or `getpeername`, by `real`.
///
/// # Safety
/// As for these functions.
pub(crate) unsafe fn get_name(
    fd: c_int,
    end: End,
    to: *mut sockaddr,
    size: *mut socklen_t,
    real: impl Fn() -> c_int,
) -> Outcome<c_int> {
    let found = match claim::resolve(fd) {
        Some(socket) => address(&socket, end).transpose()?,
        None => names::read_relayed(fd).map(|names| relayed_address(&names, end)),
    };
    let Some(found) = found else {
        return check(real());
    };
    if to.is_null() || size.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller promises the buffer.
    unsafe { found.write(to, size) };
    Ok(0)
}

fn relayed_address(names: &names::Names, end: End) -> Address {
    let address = match end {
        End::Own => names.own,
        End::Peer => names.peer,
    };
    address.in_domain(names.domain)
}

/// `setsockopt`, by `real`.
///
/// # Safety
/// As for this function.
pub(crate) unsafe fn set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    size: socklen_t,
    real: impl Fn() -> c_int,
) -> Outcome<c_int> {
    let result = check(real());
    if result.is_err() && is_tcp_level(level) && names::read_relayed(fd).is_some() {
        return Ok(0);
    }
    let result = result?;
    let Some(socket) = claim::resolve(fd) else {
        return Ok(result);
    };
    // SAFETY: the caller promises the value, which the kernel accepted.
    unsafe { apply(&socket, level, name, value, size) };
    Ok(result)
}

/// # Safety
/// The value has the size that the option asks for.
unsafe fn apply(socket: &Socket, level: c_int, name: c_int, value: *const c_void, size: socklen_t) {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
            if size as usize >= size_of::<timeval>() =>
        {
            // SAFETY: the caller promises the value.
            let limit = unsafe { value.cast::<timeval>().read_unaligned() };
            let seconds = u64::try_from(limit.tv_sec).unwrap_or(0);
            let limit = Duration::from_secs(seconds)
                + Duration::from_micros(u64::try_from(limit.tv_usec).unwrap_or(0));
            match name {
                libc::SO_RCVTIMEO => socket.set_receive_limit(limit),
                _ => socket.set_send_limit(limit),
            }
        }
        (libc::SOL_SOCKET, libc::SO_LINGER | libc::SO_KEEPALIVE)
        | (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE)
            if matches!(socket.phase(), Phase::Connecting | Phase::Connected) =>
        {
            // Best effort: other libraries may not know the option.
            // SAFETY: the caller promises the value.
            let _ = unsafe { rdmacm::set_option(socket.rs(), level, name, value, size) };
            if name == libc::SO_LINGER && size as usize >= size_of::<linger>() {
                // SAFETY: as above.
                option_copy::note_linger(socket, unsafe {
                    value.cast::<linger>().read_unaligned()
                });
            }
        }
        _ => {}
    }
}

fn is_tcp_level(level: c_int) -> bool {
    matches!(
        level,
        libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6
    )
}

/// `getsockopt`, by `real`.
///
/// # Safety
/// As for this function.
pub(crate) unsafe fn get(
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    size: *mut socklen_t,
    real: impl Fn() -> c_int,
) -> Outcome<c_int> {
    let socket = claim::resolve(fd);
    if let Some(socket) = &socket
        && (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && let Some(error) = take_error(socket)
    {
        // SAFETY: the caller promises the buffer.
        return unsafe { write_int(error, to, size) };
    }
    if socket.is_none() {
        // SAFETY: the caller promises the buffer.
        return unsafe { get_of_kernel(fd, level, name, to, size, &real) };
    }
    let result = check(real())?;
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO)
        && socket.is_some_and(|socket| socket.phase() == Phase::Connected)
    {
        // SAFETY: the kernel wrote this many bytes.
        unsafe { mark_established(to.cast(), size.read() as usize) };
    }
    Ok(result)
}

/// Takes the error of a connection attempt; `None` if the kernel answers.
fn take_error(socket: &Arc<Socket>) -> Option<c_int> {
    if let Some(error) = connect::pending_error(socket) {
        return Some(error.0);
    }
    match socket.phase() {
        Phase::Connecting => Some(0),
        Phase::Connected => Some(rdmacm::take_error(socket.rs())),
        _ => None,
    }
}

/// Gets an option of a kernel socket, which may be a connection that another process relays.
///
/// # Safety
/// As for `getsockopt`.
unsafe fn get_of_kernel(
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    size: *mut socklen_t,
    real: impl Fn() -> c_int,
) -> Outcome<c_int> {
    let result = check(real());
    if (level, name) == (libc::IPPROTO_IP, libc::IP_OPTIONS)
        && !size.is_null()
        && names::read_relayed(fd).is_some()
    {
        // There are none.
        // SAFETY: the caller promises that it is writable.
        unsafe { size.write(0) };
        return Ok(0);
    }
    let answer = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => names::read_relayed(fd).map(|names| names.domain),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => names::read_relayed(fd).map(|_| libc::IPPROTO_TCP),
        (libc::IPPROTO_TCP, libc::TCP_INFO | libc::TCP_CONGESTION) => None,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => names::read_relayed(fd).map(|_| SEGMENT as c_int),
        (level, _) if result.is_err() && is_tcp_level(level) => names::read_relayed(fd).map(|_| 0),
        _ => None,
    };
    match answer {
        // SAFETY: the caller promises the buffer.
        Some(answer) => unsafe { write_int(answer, to, size) },
        None => result,
    }
}

/// # Safety
/// As for `getsockopt`.
unsafe fn write_int(value: c_int, to: *mut c_void, size: *mut socklen_t) -> Outcome<c_int> {
    if to.is_null() || size.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller promises the buffer.
    unsafe {
        let room = (size.read() as usize).min(size_of::<c_int>());
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), room);
        size.write(room as socklen_t);
    }
    Ok(0)
}

/// # Safety
/// There are `size` bytes.
unsafe fn mark_established(info: *mut u8, size: usize) {
    // SAFETY: the caller promises the bytes.
    unsafe {
        if size > STATE_AT {
            info.add(STATE_AT).write(ESTABLISHED);
        }
        for at in SEGMENTS_AT {
            if size >= at + size_of::<u32>() {
                info.add(at).cast::<u32>().write_unaligned(SEGMENT);
            }
        }
    }
}

//! Copies options from the program's socket to its rsocket, and from a listener to accepted
//! connections, as TCP does.

use crate::errno::{Outcome, check};
use crate::socket::Socket;
use crate::{rdmacm, real};
use libc::{linger, socklen_t, timeval};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

const KEEP_ALIVE: (c_int, c_int) = (libc::SOL_SOCKET, libc::SO_KEEPALIVE);
const KEEP_IDLE: (c_int, c_int) = (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE);
const LINGER: (c_int, c_int) = (libc::SOL_SOCKET, libc::SO_LINGER);

/// Integer options that accepted connections inherit.
const INHERITED: [(c_int, c_int); 5] = [
    KEEP_ALIVE,
    KEEP_IDLE,
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
];

/// Gets an option of the kernel's socket.
///
/// # Safety
/// The option has this type.
unsafe fn get<T>(fd: c_int, (level, name): (c_int, c_int), mut value: T) -> Outcome<T> {
    let mut size = size_of::<T>() as socklen_t;
    // SAFETY: there is room for the value, and the caller promises the type.
    check(unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size) })?;
    Ok(value)
}

/// # Safety
/// The option has this type.
unsafe fn set<T>(fd: c_int, (level, name): (c_int, c_int), value: &T) {
    let size = size_of::<T>() as socklen_t;
    // SAFETY: the value can be read, and the caller promises the type.
    unsafe { real::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), size) };
}

/// Sets an option of an rsocket. Best effort: other libraries may not know the option.
///
/// # Safety
/// The option has this type.
unsafe fn set_over_rdma<T>(rs: c_int, (level, name): (c_int, c_int), value: &T) {
    let size = size_of::<T>() as socklen_t;
    // SAFETY: the value can be read, and the caller promises the type.
    let _ = unsafe { rdmacm::set_option(rs, level, name, std::ptr::from_ref(value).cast(), size) };
}

const NO_LINGER: linger = linger {
    l_onoff: 0,
    l_linger: 0,
};

/// Copies a number from the kernel's socket to an rsocket.
pub(crate) fn copy_number(fd: c_int, rs: c_int, option: (c_int, c_int)) {
    // SAFETY: the option is a number.
    unsafe {
        if let Ok(value) = get::<c_int>(fd, option, 0) {
            set_over_rdma(rs, option, &value);
        }
    }
}

/// Whether closing the kernel's socket discards unsent bytes: `SO_LINGER` with a time of 0.
pub(crate) fn is_reset_at_close(fd: c_int) -> bool {
    // SAFETY: the option has this type.
    let linger = unsafe { get(fd, LINGER, NO_LINGER) };
    linger.is_ok_and(|linger| linger.l_onoff != 0 && linger.l_linger == 0)
}

/// Copies the options that the program has set on its socket to an rsocket.
pub(crate) fn copy_to_rsocket(fd: c_int, socket: &Socket, rs: c_int) {
    copy_number(fd, rs, KEEP_IDLE);
    // SAFETY: each option has the type of its value.
    unsafe {
        if let Ok(is_on @ 1..) = get::<c_int>(fd, KEEP_ALIVE, 0) {
            set_over_rdma(rs, KEEP_ALIVE, &is_on);
        }
        if let Ok(value @ linger { l_onoff: 1.., .. }) = get(fd, LINGER, NO_LINGER) {
            set_over_rdma(rs, LINGER, &value);
            note_linger(socket, value);
        }
    }
}

/// Remembers whether `close` waits.
pub(crate) fn note_linger(socket: &Socket, value: linger) {
    let waits = value.l_onoff != 0 && value.l_linger > 0;
    socket.lingers.store(waits, Ordering::Relaxed);
}

/// Copies a listener's options to an accepted connection.
pub(crate) fn copy_from_listener(
    listener_fd: c_int,
    listener: &Socket,
    fd: c_int,
    socket: &Socket,
) {
    // SAFETY: each option has the type of its value.
    unsafe {
        for option in INHERITED {
            if let Ok(value @ 1..) = get::<c_int>(listener_fd, option, 0) {
                set(fd, option, &value);
            }
        }
        if let Ok(value @ linger { l_onoff: 1.., .. }) = get(listener_fd, LINGER, NO_LINGER) {
            set(fd, LINGER, &value);
        }
        let limits = [
            (libc::SO_RCVTIMEO, listener.receive_limit()),
            (libc::SO_SNDTIMEO, listener.send_limit()),
        ];
        for (name, limit) in limits {
            let Some(limit) = limit else { continue };
            let value = timeval {
                tv_sec: limit.as_secs().cast_signed(),
                tv_usec: limit.subsec_micros().into(),
            };
            set(fd, (libc::SOL_SOCKET, name), &value);
            match name {
                libc::SO_RCVTIMEO => socket.set_receive_limit(limit),
                _ => socket.set_send_limit(limit),
            }
        }
    }
    copy_to_rsocket(fd, socket, socket.rs());
}

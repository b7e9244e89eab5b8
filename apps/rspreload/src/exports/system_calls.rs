//! `syscall`: system calls by number.

use super::connections::{
    accept, accept4, connect, getpeername, getsockname, getsockopt, ioctl, listen, setsockopt,
    shutdown,
};
use super::numbers::{
    close, close_range, dup, dup3, eventfd, fcntl, inotify_init1, memfd_create, openat, pipe2,
    socket, socketpair, timerfd_create,
};
#[cfg(target_arch = "x86_64")]
use super::numbers::{creat, dup2, inotify_init, open, pipe};
use super::transfers::{
    read, readv, recvfrom, recvmmsg, recvmsg, sendmmsg, sendmsg, sendto, write, writev,
};
#[cfg(target_arch = "x86_64")]
use super::waits::{epoll_create, epoll_wait, poll};
use super::waits::{epoll_create1, epoll_ctl, epoll_pwait};
use crate::real;
use std::ffi::{c_int, c_long, c_uint};

replace! {
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    match dispatch(number, [a, b, c, d, e, f]) {
        Some(result) => result,
        None => real::syscall(number, a, b, c, d, e, f),
    }
}

/// Calls this library's function for a system call, if it has one: libuv, for example, closes
/// descriptors this way. Returns `None` for all others, such as Rust's futexes.
unsafe fn dispatch(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let int = |argument: c_long| argument as c_int;
    let uint = |argument: c_long| argument as c_uint;
    // SAFETY: the caller promises what the system call asks for, which is what the function asks for.
    Some(unsafe {
        let result = match number {
            libc::SYS_socket => socket(int(a), int(b), int(c)),
            libc::SYS_socketpair => socketpair(int(a), int(b), int(c), d as _),
            libc::SYS_accept => accept(int(a), b as _, c as _),
            libc::SYS_accept4 => accept4(int(a), b as _, c as _, int(d)),
            libc::SYS_listen => listen(int(a), int(b)),
            libc::SYS_connect => connect(int(a), b as _, c as _),
            libc::SYS_shutdown => shutdown(int(a), int(b)),
            libc::SYS_getsockname => getsockname(int(a), b as _, c as _),
            libc::SYS_getpeername => getpeername(int(a), b as _, c as _),
            libc::SYS_getsockopt => getsockopt(int(a), int(b), int(c), d as _, e as _),
            libc::SYS_setsockopt => setsockopt(int(a), int(b), int(c), d as _, e as _),
            libc::SYS_close => close(int(a)),
            libc::SYS_close_range => close_range(uint(a), uint(b), int(c)),
            libc::SYS_dup => dup(int(a)),
            libc::SYS_dup3 => dup3(int(a), int(b), int(c)),
            libc::SYS_fcntl => fcntl(int(a), int(b), c),
            libc::SYS_ioctl => ioctl(int(a), b as _, c as _),
            libc::SYS_pipe2 => pipe2(a as _, int(b)),
            libc::SYS_eventfd2 => eventfd(uint(a), int(b)),
            libc::SYS_timerfd_create => timerfd_create(int(a), int(b)),
            libc::SYS_inotify_init1 => inotify_init1(int(a)),
            libc::SYS_memfd_create => memfd_create(a as _, uint(b)),
            libc::SYS_openat => openat(int(a), b as _, int(c), d as _),
            libc::SYS_epoll_create1 => epoll_create1(int(a)),
            libc::SYS_epoll_ctl => epoll_ctl(int(a), int(b), int(c), d as _),
            libc::SYS_epoll_pwait => epoll_pwait(int(a), b as _, int(c), int(d), e as _),
            libc::SYS_recvmmsg => recvmmsg(int(a), b as _, uint(c), int(d), e as _),
            libc::SYS_sendmmsg => sendmmsg(int(a), b as _, uint(c), int(d)),
            libc::SYS_read => return Some(read(int(a), b as _, c as _) as c_long),
            libc::SYS_readv => return Some(readv(int(a), b as _, int(c)) as c_long),
            libc::SYS_write => return Some(write(int(a), b as _, c as _) as c_long),
            libc::SYS_writev => return Some(writev(int(a), b as _, int(c)) as c_long),
            libc::SYS_recvmsg => return Some(recvmsg(int(a), b as _, int(c)) as c_long),
            libc::SYS_sendmsg => return Some(sendmsg(int(a), b as _, int(c)) as c_long),
            libc::SYS_recvfrom => {
                return Some(recvfrom(int(a), b as _, c as _, int(d), e as _, f as _) as c_long);
            }
            libc::SYS_sendto => {
                return Some(sendto(int(a), b as _, c as _, int(d), e as _, f as _) as c_long);
            }
            #[cfg(target_arch = "x86_64")]
            _ => return dispatch_legacy(number, [a, b, c, d]),
            #[cfg(not(target_arch = "x86_64"))]
            _ => return None,
        };
        result.into()
    })
}

/// Does the same for system calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
unsafe fn dispatch_legacy(number: c_long, [a, b, c, d]: [c_long; 4]) -> Option<c_long> {
    let int = |argument: c_long| argument as c_int;
    // SAFETY: as for `dispatch`.
    let result = unsafe {
        match number {
            libc::SYS_open => open(a as _, int(b), c as _),
            libc::SYS_creat => creat(a as _, b as _),
            libc::SYS_dup2 => dup2(int(a), int(b)),
            libc::SYS_pipe => pipe(a as _),
            libc::SYS_poll => poll(a as _, b as _, int(c)),
            libc::SYS_epoll_create => epoll_create(int(a)),
            libc::SYS_epoll_wait => epoll_wait(int(a), b as _, int(c), int(d)),
            libc::SYS_inotify_init => inotify_init(),
            _ => return None,
        }
    };
    Some(result.into())
}

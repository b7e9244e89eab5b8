//! The C library's functions that this library replaces.
//!
//! On the architectures that this library supports, variadic and fixed arguments are passed alike, so
//! `fcntl`, `ioctl` and `open` always forward their optional argument.
//!
//! A cancelled thread may unwind its stack from a blocking function: see `cancel`.

use crate::errno::Errno;
use libc::{
    epoll_event, fd_set, iovec, mmsghdr, mode_t, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use roce_trust::Next;
use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

macro_rules! originals {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(
            /// The C library's function of this name.
            ///
            /// # Safety
            /// As for the C library's function.
            pub(crate) unsafe fn $name($($arg: $type),*) -> $ret {
                let next = next::$name.get();
                if next.is_null() {
                    Errno(libc::ENOSYS).set();
                    return -1;
                }
                // SAFETY: the C library's function of this name has this type. The caller promises
                // what it asks for.
                unsafe {
                    let next = std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> $ret>(next);
                    next($($arg),*)
                }
            }
        )*
        #[expect(non_upper_case_globals, reason = "they are named as the functions")]
        mod next {
            use super::Next;
            $(pub(super) static $name: Next = Next::new({
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("it ends with a zero"),
                }
            });)*
        }
        /// All replaced functions.
        static ALL: &[&Next] = &[$(&next::$name),*];
    };
}

pub(crate) type Start = extern "C" fn(*mut c_void) -> *mut c_void;
/// A fork handler.
pub(crate) type Handler = Option<extern "C" fn()>;
pub(crate) type Strings = *const *const c_char;

originals! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, to: *mut c_int) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    fn getsockname(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, to: *mut c_void, size: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) -> c_int;

    fn read(fd: c_int, to: *mut c_void, size: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t) -> ssize_t;
    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t;
    fn preadv2(fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn recv(fd: c_int, to: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    fn __recv_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, to: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    fn __recvfrom_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn write(fd: c_int, from: *const c_void, size: size_t) -> ssize_t;
    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn send(fd: c_int, from: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, from: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, address_size: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint) -> ssize_t;

    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int;
    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;

    fn eventfd(initial: c_uint, flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkstemp64(template: *mut c_char) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;

    fn pipe(to: *mut c_int) -> c_int;
    fn pipe2(to: *mut c_int, flags: c_int) -> c_int;
    fn pthread_create(thread: *mut c_ulong, attributes: *const c_void, start: Start, argument: *mut c_void) -> c_int;
    fn __register_atfork(prepare: Handler, in_parent: Handler, in_child: Handler, object: *mut c_void) -> c_int;
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execveat(at: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    fn execv(path: *const c_char, arguments: Strings) -> c_int;
    fn execvp(file: *const c_char, arguments: Strings) -> c_int;
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
}

/// The C library's variadic `execl`, `execlp` and `execle`, and `_exit`.
pub(crate) static EXECL: Next = Next::new(c"execl");
pub(crate) static EXECLP: Next = Next::new(c"execlp");
pub(crate) static EXECLE: Next = Next::new(c"execle");
pub(crate) static EXIT: Next = Next::new(c"_exit");

/// Looks up all functions, so that later calls don't have to.
pub(crate) fn find_all() {
    for next in ALL.iter().chain(&[&EXECL, &EXECLP, &EXECLE, &EXIT]) {
        next.get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_is_an_older_version() {
        for next in ALL.iter().chain(&[&EXECL, &EXECLP, &EXECLE, &EXIT]) {
            testkit::check_version(next.name(), next.version());
        }
    }
}

//! Creating, duplicating and closing descriptors.

use super::is_kernel_fd;
use crate::errno::{call, check};
use crate::{descriptors, real};
use libc::{mode_t, sigset_t};
use std::ffi::{c_char, c_int, c_long, c_uint};

/// Defines functions whose only result is a new descriptor.
macro_rules! replace_creators {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        replace! {
            $(
                fn $name($($arg: $type),*) -> c_int;
                descriptors::register_new(real::$name($($arg),*))
            )*
        }
    };
}

replace_creators! {
    fn eventfd(initial: c_uint, flags: c_int);
    fn timerfd_create(clock: c_int, flags: c_int);
    fn inotify_init();
    fn inotify_init1(flags: c_int);
    fn memfd_create(name: *const c_char, flags: c_uint);
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t);
    fn open(path: *const c_char, flags: c_int, mode: mode_t);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t);
    fn __open_2(path: *const c_char, flags: c_int);
    fn __open64_2(path: *const c_char, flags: c_int);
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int);
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int);
    fn creat(path: *const c_char, mode: mode_t);
    fn creat64(path: *const c_char, mode: mode_t);
    fn mkstemp(template: *mut c_char);
    fn mkstemp64(template: *mut c_char);
    fn mkostemp(template: *mut c_char, flags: c_int);
    fn mkostemp64(template: *mut c_char, flags: c_int);
}

replace! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    descriptors::track_socket(real::socket(domain, kind, protocol), domain, kind, protocol)

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, to: *mut c_int) -> c_int;
    descriptors::register_pair(real::socketpair(domain, kind, protocol, to), to)

    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int; {
        let result = real::signalfd(fd, mask, flags);
        // The call may change the mask of an existing signalfd.
        if result == fd { fd } else { descriptors::register_new(result) }
    }

    fn pipe(to: *mut c_int) -> c_int;
    descriptors::register_pair(real::pipe(to), to)

    fn pipe2(to: *mut c_int, flags: c_int) -> c_int;
    descriptors::register_pair(real::pipe2(to, flags), to)

    fn close(fd: c_int) -> c_int;
    if is_kernel_fd(fd) { real::close(fd) } else { call(-1, || descriptors::close(fd)) }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    call(-1, || descriptors::close_range(first, last, flags))

    fn closefrom(first: c_int) -> (); {
        let first = first.max(0).cast_unsigned();
        call((), || descriptors::close_range(first, c_uint::MAX, 0).map(drop));
    }

    fn dup(fd: c_int) -> c_int;
    call(-1, || check(real::dup(fd)).map(|made| descriptors::register_copy(fd, made)))

    fn dup2(fd: c_int, to: c_int) -> c_int;
    call(-1, || descriptors::copy_to(fd, to, || real::dup2(fd, to)))

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    call(-1, || descriptors::copy_to(fd, to, || real::dup3(fd, to, flags)))

    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int; {
        let real = |argument| real::fcntl(fd, command, argument);
        if is_kernel_fd(fd) {
            return register_fcntl_copy(command, real(argument));
        }
        call(-1, || descriptors::fcntl(fd, command, argument, real))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int; {
        let real = |argument| real::fcntl64(fd, command, argument);
        if is_kernel_fd(fd) {
            return register_fcntl_copy(command, real(argument));
        }
        call(-1, || descriptors::fcntl(fd, command, argument, real))
    }
}

/// Registers the descriptor if `fcntl` has duplicated one.
fn register_fcntl_copy(command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::register_new(result),
        _ => result,
    }
}

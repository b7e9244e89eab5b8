//! Descriptors that a program gets, copies and closes.

use super::is_kernels;
use crate::errno::{call, check};
use crate::{descriptors, real};
use libc::{mode_t, sigset_t};
use std::ffi::{c_char, c_int, c_long, c_uint};

replace! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    descriptors::made(real::socket(domain, kind, protocol), domain, kind, protocol)

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, to: *mut c_int) -> c_int;
    descriptors::given_pair(real::socketpair(domain, kind, protocol, to), to)

    fn eventfd(initial: c_uint, flags: c_int) -> c_int;
    descriptors::given(real::eventfd(initial, flags))

    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    descriptors::given(real::timerfd_create(clock, flags))

    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int; {
        let made = real::signalfd(fd, mask, flags);
        // It may set the mask of one that there is.
        if made == fd { made } else { descriptors::given(made) }
    }

    fn inotify_init() -> c_int;
    descriptors::given(real::inotify_init())

    fn inotify_init1(flags: c_int) -> c_int;
    descriptors::given(real::inotify_init1(flags))

    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    descriptors::given(real::memfd_create(name, flags))

    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    descriptors::given(real::shm_open(name, flags, mode))

    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    descriptors::given(real::open(path, flags, mode))

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    descriptors::given(real::open64(path, flags, mode))

    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    descriptors::given(real::__open_2(path, flags))

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    descriptors::given(real::__open64_2(path, flags))

    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    descriptors::given(real::openat(at, path, flags, mode))

    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    descriptors::given(real::openat64(at, path, flags, mode))

    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    descriptors::given(real::__openat_2(at, path, flags))

    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    descriptors::given(real::__openat64_2(at, path, flags))

    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    descriptors::given(real::creat(path, mode))

    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    descriptors::given(real::creat64(path, mode))

    fn mkstemp(template: *mut c_char) -> c_int;
    descriptors::given(real::mkstemp(template))

    fn mkstemp64(template: *mut c_char) -> c_int;
    descriptors::given(real::mkstemp64(template))

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    descriptors::given(real::mkostemp(template, flags))

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    descriptors::given(real::mkostemp64(template, flags))

    fn pipe(to: *mut c_int) -> c_int;
    descriptors::given_pair(real::pipe(to), to)

    fn pipe2(to: *mut c_int, flags: c_int) -> c_int;
    descriptors::given_pair(real::pipe2(to, flags), to)

    fn close(fd: c_int) -> c_int;
    if is_kernels(fd) { real::close(fd) } else { call(-1, || descriptors::close(fd)) }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    call(-1, || descriptors::close_range(first, last, flags))

    fn closefrom(first: c_int) -> (); {
        let first = first.max(0).cast_unsigned();
        call((), || descriptors::close_range(first, c_uint::MAX, 0).map(drop));
    }

    fn dup(fd: c_int) -> c_int;
    call(-1, || check(real::dup(fd)).map(|made| descriptors::copied(fd, made)))

    fn dup2(fd: c_int, to: c_int) -> c_int;
    call(-1, || descriptors::copy_to(fd, to, || real::dup2(fd, to)))

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    call(-1, || descriptors::copy_to(fd, to, || real::dup3(fd, to, flags)))

    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int; {
        let real = |argument| real::fcntl(fd, command, argument);
        if is_kernels(fd) {
            return copied_by(command, real(argument));
        }
        call(-1, || descriptors::fcntl(fd, command, argument, real))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int; {
        let real = |argument| real::fcntl64(fd, command, argument);
        if is_kernels(fd) {
            return copied_by(command, real(argument));
        }
        call(-1, || descriptors::fcntl(fd, command, argument, real))
    }
}

/// Notes the number of a copy that `fcntl` has made of a descriptor of the kernel's.
fn copied_by(command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::given(result),
        _ => result,
    }
}

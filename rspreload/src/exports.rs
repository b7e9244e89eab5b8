//! The C library functions that this library replaces: each has the name and the signature of the
//! original, to which it passes what is not about a socket of this library.

use crate::address::Address;
use crate::clock::Until;
use crate::epoll::Step;
use crate::errno::{Errno, call, check};
use crate::inside::is_inside;
use crate::kinds::{self, Kind};
use crate::options::End;
use crate::real::{self, Handler, Start, Strings};
use crate::select::{self, Sets};
use crate::signals::Mask;
use crate::socket::{Phase, Socket};
use crate::{
    accept, atfork, cancel, claim, connect, descriptors, epoll, exec, exit, io, listen, options,
    poll, rdmacm, sendfile, table, threads,
};
use libc::{
    epoll_event, fd_set, iovec, mmsghdr, mode_t, msghdr, nfds_t, off_t, pid_t, pollfd, sigset_t,
    size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Defines the functions of the C library. The caller of each promises what the original asks for.
macro_rules! replace {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty; $body:expr)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                #[expect(clippy::allow_attributes, reason = "only some bodies are safe")]
                #[allow(unused_unsafe)]
                // SAFETY: the caller promises what the C library's function asks for.
                unsafe { $body }
            }
        )*
    };
}

/// What a descriptor is to the caller: to librdmacm, which polls the program's as well, the kernel's.
#[inline]
fn kind(fd: c_int) -> Kind {
    match kinds::of(fd) {
        Kind::Socket | Kind::Epoll if is_inside() => Kind::Other,
        kind => kind,
    }
}

#[inline]
fn is_kernels(fd: c_int) -> bool {
    kind(fd) == Kind::Other
}

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

    fn pthread_create(thread: *mut c_ulong, attributes: *const c_void, start: Start, argument: *mut c_void) -> c_int;
    threads::create(thread, attributes, start, argument)

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
    if is_kernels(fd) { descriptors::given(real::accept(fd, address, size)) } else { accepted(fd, address, size, 0) }

    fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int;
    if is_kernels(fd) {
        descriptors::given(real::accept4(fd, address, size, flags))
    } else {
        accepted(fd, address, size, flags)
    }

    fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int; {
        let real = || real::connect(fd, address, size);
        if is_kernels(fd) {
            return real();
        }
        cancel::point();
        call(-1, || match claim::known(fd) {
            Some(socket) => connect::connect(fd, &socket, Address::read(address, size), real),
            None => check(real()),
        })
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int;
    of_connection(fd, || real::shutdown(fd, how), |socket| {
        if how != libc::SHUT_RD {
            socket.is_send_shut.store(true, Ordering::Release);
        }
        rdmacm::shutdown(socket.rs(), how).map(|()| 0)
    })

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

    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    match by_number(number, [a, b, c, d, e, f]) {
        Some(result) => result,
        None => real::syscall(number, a, b, c, d, e, f),
    }

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

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int; {
        let real = || real::ioctl(fd, request, argument);
        if kind(fd) != Kind::Socket {
            return real();
        }
        call(-1, || descriptors::ioctl(fd, request, argument, real))
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    call(-1, || options::name(fd, End::Own, address, size, || real::getsockname(fd, address, size)))

    fn getpeername(fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    call(-1, || options::name(fd, End::Peer, address, size, || real::getpeername(fd, address, size)))

    fn getsockopt(fd: c_int, level: c_int, name: c_int, to: *mut c_void, size: *mut socklen_t) -> c_int;
    call(-1, || options::get(fd, level, name, to, size, || real::getsockopt(fd, level, name, to, size)))

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) -> c_int;
    call(-1, || options::set(fd, level, name, value, size, || real::setsockopt(fd, level, name, value, size)))
}

/// Makes a system call that the program makes by its number, as libuv does to close descriptors, if
/// this library has a function for it. Returns `None` for all other system calls, such as the C
/// library's and Rust's futexes, which go to the kernel.
unsafe fn by_number(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
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
            _ => return by_old_number(number, [a, b, c, d]),
            #[cfg(not(target_arch = "x86_64"))]
            _ => return None,
        };
        result.into()
    })
}

/// The same for system calls that newer processors lack.
#[cfg(target_arch = "x86_64")]
unsafe fn by_old_number(number: c_long, [a, b, c, d]: [c_long; 4]) -> Option<c_long> {
    let int = |argument: c_long| argument as c_int;
    // SAFETY: as for `by_number`.
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

/// `accept` at a socket that may listen over RDMA.
unsafe fn accepted(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: the caller promises the buffer.
    let real = || unsafe { descriptors::given(real::accept4(fd, address, size, flags)) };
    ours_or(real, || match claim::waited_for(fd) {
        // SAFETY: as above.
        Some(socket) if socket.is_kernel_nonblocking.load(Ordering::Acquire) => unsafe {
            accept::accept(fd, &socket, address, size, flags).map(Some)
        },
        // One that listens over TCP alone.
        _ => Ok(None),
    })
}

/// Does `ours`, and then `real` if the kernel has to answer, which may wait. -1 if `ours` fails.
fn ours_or<T: From<i8>>(
    real: impl Fn() -> T,
    ours: impl FnOnce() -> Result<Option<T>, Errno>,
) -> T {
    cancel::point();
    match call(Some(T::from(-1)), ours) {
        Some(result) => result,
        None => real(),
    }
}

/// Notes the number of a copy that `fcntl` has made of a descriptor of the kernel's.
fn copied_by(command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::given(result),
        _ => result,
    }
}

/// Does `ours` for a connection over RDMA, and `real` for all other descriptors.
fn of_connection(
    fd: c_int,
    real: impl Fn() -> c_int,
    ours: impl FnOnce(&Arc<Socket>) -> Result<c_int, Errno>,
) -> c_int {
    if kind(fd) != Kind::Socket {
        return real();
    }
    call(-1, || match claim::in_use(fd) {
        Some(socket) if socket.phase() == Phase::Connected => ours(&socket),
        _ => check(real()),
    })
}

/// The same for calls that move bytes.
fn moved(
    fd: c_int,
    real: impl Fn() -> ssize_t,
    ours: impl FnOnce(&Arc<Socket>) -> Result<usize, Errno>,
) -> ssize_t {
    if kind(fd) != Kind::Socket {
        return real();
    }
    ours_or(real, || match claim::in_use(fd) {
        Some(socket) if socket.phase() != Phase::Listening => {
            ours(&socket).map(|count| Some(count.cast_signed()))
        }
        _ => Ok(None),
    })
}

/// The same for calls that move messages: -1 with `errno` set, or how many. `one` returns whether a
/// further message may follow.
fn messages(
    fd: c_int,
    real: impl Fn() -> c_int,
    count: c_uint,
    mut one: impl FnMut(&Arc<Socket>, usize) -> Result<bool, Errno>,
) -> c_int {
    if kind(fd) != Kind::Socket {
        return real();
    }
    ours_or(real, || {
        let Some(socket) = claim::in_use(fd).filter(|socket| socket.phase() != Phase::Listening)
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

/// Receives one message: bytes of the stream, without an address.
unsafe fn receive(
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

unsafe fn no_address(size: *mut socklen_t) {
    if !size.is_null() {
        // SAFETY: the caller promises the place.
        unsafe { size.write(0) };
    }
}

replace! {
    fn read(fd: c_int, to: *mut c_void, size: size_t) -> ssize_t;
    moved(fd, || real::read(fd, to, size), |socket| io::receive(socket, &io::buffer(to, size), 0))

    fn __read_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t) -> ssize_t;
    if size > room { real::__read_chk(fd, to, size, room) } else { read(fd, to, size) }

    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t;
    moved(fd, || real::readv(fd, to, count), |socket| {
        io::receive(socket, io::buffers(to, count.max(0) as usize)?, 0)
    })

    fn preadv2(fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    if offset == -1 && kind(fd) == Kind::Socket {
        readv(fd, to, count)
    } else {
        real::preadv2(fd, to, count, offset, flags)
    }

    fn recv(fd: c_int, to: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    moved(fd, || real::recv(fd, to, size, flags), |socket| io::receive(socket, &io::buffer(to, size), flags))

    fn __recv_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t;
    if size > room { real::__recv_chk(fd, to, size, room, flags) } else { recv(fd, to, size, flags) }

    fn recvfrom(fd: c_int, to: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    moved(fd, || real::recvfrom(fd, to, size, flags, address, address_size), |socket| {
        let received = io::receive(socket, &io::buffer(to, size), flags)?;
        no_address(address_size);
        Ok(received)
    })

    fn __recvfrom_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int, address: *mut sockaddr, address_size: *mut socklen_t) -> ssize_t;
    if size > room {
        real::__recvfrom_chk(fd, to, size, room, flags, address, address_size)
    } else {
        recvfrom(fd, to, size, flags, address, address_size)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    moved(fd, || {
        let received = real::recvmsg(fd, message, flags);
        if received >= 0 {
            descriptors::given_with(message);
        }
        received
    }, |socket| receive(socket, message, flags))

    fn recvmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    messages(fd, || {
        let received = real::recvmmsg(fd, all, count, flags, timeout);
        for index in 0..received.max(0) as usize {
            descriptors::given_with(&raw const (*all.add(index)).msg_hdr);
        }
        received
    }, count, |socket, index| {
        let message = all.add(index);
        // Only the first one is waited for.
        let flags = if index > 0 { flags | libc::MSG_DONTWAIT } else { flags };
        let received = receive(socket, &raw mut (*message).msg_hdr, flags)?;
        (*message).msg_len = received as c_uint;
        Ok(true)
    })

    fn write(fd: c_int, from: *const c_void, size: size_t) -> ssize_t;
    moved(fd, || real::write(fd, from, size), |socket| io::send(socket, &io::buffer(from, size), 0))

    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t;
    moved(fd, || real::writev(fd, from, count), |socket| {
        io::send(socket, io::buffers(from, count.max(0) as usize)?, 0)
    })

    fn pwritev2(fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    if offset == -1 && kind(fd) == Kind::Socket {
        writev(fd, from, count)
    } else {
        real::pwritev2(fd, from, count, offset, flags)
    }

    fn send(fd: c_int, from: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    moved(fd, || real::send(fd, from, size, flags), |socket| io::send(socket, &io::buffer(from, size), flags))

    fn sendto(fd: c_int, from: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, address_size: socklen_t) -> ssize_t;
    moved(fd, || real::sendto(fd, from, size, flags, address, address_size), |socket| {
        io::send(socket, &io::buffer(from, size), flags)
    })

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    moved(fd, || real::sendmsg(fd, message, flags), |socket| send_message(socket, message, flags))

    fn sendmmsg(fd: c_int, all: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    messages(fd, || real::sendmmsg(fd, all, count, flags), count, |socket, index| {
        let message = all.add(index);
        let sent = send_message(socket, &raw const (*message).msg_hdr, flags)?;
        (*message).msg_len = sent as c_uint;
        Ok(sent == io::total(io::buffers((*message).msg_hdr.msg_iov, (*message).msg_hdr.msg_iovlen)?)?)
    })

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    moved_file(to, || real::sendfile(to, from, offset, size), from, offset, size)

    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, size: size_t) -> ssize_t;
    moved_file(to, || real::sendfile64(to, from, offset, size), from, offset, size)

    fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, size: size_t, flags: c_uint) -> ssize_t; {
        let real = || real::splice(from, from_offset, to, to_offset, size, flags);
        // A program that cannot splice copies.
        let refuse = |_: &Arc<Socket>| Err(Errno(libc::EINVAL));
        if kind(from) == Kind::Socket {
            moved(from, real, refuse)
        } else {
            moved(to, real, refuse)
        }
    }
}

unsafe fn moved_file(
    to: c_int,
    real: impl Fn() -> ssize_t,
    from: c_int,
    offset: *mut off_t,
    size: size_t,
) -> ssize_t {
    moved(to, real, |socket| {
        // SAFETY: the caller promises the offset.
        unsafe { sendfile::sendfile(socket, from, offset, size) }.map(isize::cast_unsigned)
    })
}

/// The entries that a program passed to `poll`; `None` if the kernel has to judge them.
unsafe fn entries<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if fds.is_null() || count == 0 || count > c_int::MAX as nfds_t {
        return None;
    }
    // SAFETY: the caller promises them.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    fds.iter()
        .any(|fd| kind(fd.fd) == Kind::Socket)
        .then_some(fds)
}

/// The sets that a program passed to `select`, with their descriptors; `None` if the kernel alone
/// can answer. Lowers the count to the descriptors that are looked at.
unsafe fn sets(count: &mut c_int, sets: [*mut fd_set; 3]) -> Option<(Sets, Vec<pollfd>)> {
    if sets.iter().all(|set| set.is_null()) {
        return None;
    }
    *count = call(None, || Ok(select::within_table(*count)))?;
    // SAFETY: the caller promises them.
    let sets = unsafe { Sets::new(sets, *count) };
    let entries = sets.entries();
    let is_ours = entries.iter().any(|fd| kind(fd.fd) == Kind::Socket);
    is_ours.then_some((sets, entries))
}

/// Runs the body of a function that waits.
fn waits(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    cancel::point();
    call(-1, work)
}

/// `epoll_wait` and its like.
unsafe fn waited(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    until: Until,
    mask: *const sigset_t,
    real: impl Fn() -> c_int,
) -> c_int {
    cancel::point();
    let Some(interest) = table::epoll(epoll) else {
        return real();
    };
    if events.is_null() || count <= 0 {
        return real();
    }
    // SAFETY: the caller promises the room.
    let to = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
    loop {
        // SAFETY: the caller promises the mask.
        let step = call(None, || unsafe {
            epoll::wait(epoll, &interest, to, until, mask).map(Some)
        });
        let waiting = match step {
            None => return -1,
            Some(Step::Found(found)) => return found as c_int,
            Some(Step::InKernel(waiting)) => waiting,
        };
        // SAFETY: the caller promises the room and the mask.
        let found =
            unsafe { real::epoll_pwait(epoll, events, count, until.left_milliseconds(), mask) };
        drop(waiting);
        if found < 0 {
            return found;
        }
        let found = call(None, || {
            Ok(epoll::found_in_kernel(&interest, to, found as usize))
        });
        if let Some(found) = found {
            return found as c_int;
        }
    }
}

replace! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    match entries(fds, count) {
        None => real::poll(fds, count, timeout),
        Some(fds) => waits(|| poll::wait(fds, Until::milliseconds(timeout), None)),
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        real::__poll_chk(fds, count, timeout, room)
    } else {
        poll(fds, count, timeout)
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    match entries(fds, count) {
        None => real::ppoll(fds, count, timeout, mask),
        Some(fds) => waits(|| {
            let until = Until::timespec(timeout)?;
            poll::wait(fds, until, Mask::new(mask)?.as_ref())
        }),
    }

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int;
    if room / size_of::<pollfd>() < count as usize {
        real::__ppoll_chk(fds, count, timeout, mask, room)
    } else {
        ppoll(fds, count, timeout, mask)
    }

    fn select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *mut timeval) -> c_int; {
        let mut count = count;
        match sets(&mut count, [reads, writes, excepts]) {
            None => real::select(count, reads, writes, excepts, timeout),
            Some((sets, entries)) => waits(|| {
                let until = Until::timeval(timeout)?;
                let result = sets.wait(entries, until, None);
                if let Some(left) = until.left() {
                    // As Linux does.
                    timeout.write(timeval {
                        tv_sec: left.as_secs() as _,
                        tv_usec: left.subsec_micros().into(),
                    });
                }
                result
            }),
        }
    }

    fn pselect(count: c_int, reads: *mut fd_set, writes: *mut fd_set, excepts: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int; {
        let mut count = count;
        match sets(&mut count, [reads, writes, excepts]) {
            None => real::pselect(count, reads, writes, excepts, timeout, mask),
            Some((sets, entries)) => waits(|| {
                let until = Until::timespec(timeout)?;
                sets.wait(entries, until, Mask::new(mask)?.as_ref())
            }),
        }
    }

    fn epoll_create(size: c_int) -> c_int;
    descriptors::made_epoll(real::epoll_create(size))

    fn epoll_create1(flags: c_int) -> c_int;
    descriptors::made_epoll(real::epoll_create1(flags))

    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int; {
        let real = || real::epoll_ctl(epoll, operation, fd, event);
        if kind(fd) != Kind::Socket {
            return real();
        }
        let Some(interest) = table::epoll(epoll) else {
            return real();
        };
        call(-1, || {
            let event = if event.is_null() { None } else { Some(event.read_unaligned()) };
            match epoll::control(epoll, &interest, operation, fd, event) {
                Some(result) => result.map(|()| 0),
                None => check(real()),
            }
        })
    }

    fn epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    waited(epoll, events, count, Until::milliseconds(timeout), std::ptr::null(), || {
        real::epoll_wait(epoll, events, count, timeout)
    })

    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    waited(epoll, events, count, Until::milliseconds(timeout), mask, || {
        real::epoll_pwait(epoll, events, count, timeout, mask)
    })

    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int; {
        let real = || real::epoll_pwait2(epoll, events, count, timeout, mask);
        match Until::timespec(timeout) {
            Ok(until) => waited(epoll, events, count, until, mask, real),
            Err(_) => real(),
        }
    }

    fn __register_atfork(prepare: Handler, in_parent: Handler, in_child: Handler, object: *mut c_void) -> c_int;
    atfork::register(prepare, in_parent, in_child, object)

    // The child of the original runs in its parent's memory, where this library's tables are.
    fn vfork() -> pid_t;
    libc::fork()

    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::execve(path, arguments, environment)
    }

    fn execveat(at: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int; {
        exec::prepare();
        real::execveat(at, path, arguments, environment, flags)
    }

    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::fexecve(fd, arguments, environment)
    }

    fn execv(path: *const c_char, arguments: Strings) -> c_int; {
        exec::prepare();
        real::execv(path, arguments)
    }

    fn execvp(file: *const c_char, arguments: Strings) -> c_int; {
        exec::prepare();
        real::execvp(file, arguments)
    }

    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::execvpe(file, arguments, environment)
    }

    fn _exit(status: c_int) -> !;
    ended(status)

    fn _Exit(status: c_int) -> !;
    ended(status)
}

fn ended(status: c_int) -> ! {
    call((), || {
        exit::at_once();
        Ok(())
    });
    // SAFETY: only a number is passed. This is what the C library's function does.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
    }
    // The kernel has ended the process.
    loop {
        std::thread::sleep(Duration::MAX);
    }
}

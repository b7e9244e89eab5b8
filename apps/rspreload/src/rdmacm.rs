//! The rsocket functions of the `librdmacm.so.1` that the loader finds.

use crate::address::{self, Address};
use crate::errno::{Errno, Outcome, check, check_size, preserve};
use crate::inside::Inside;
use crate::{poll_set, say};
use libc::{iovec, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t};
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NAME: &CStr = c"librdmacm.so.1";

type Name = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

/// Declares the functions to look up, with the types from `<rdma/rsocket.h>`.
macro_rules! functions {
    ($($name:ident: $type:ty;)*) => {
        struct Library {
            $($name: $type,)*
        }

        impl Library {
            fn find(mut find: impl FnMut(&CStr) -> Result<*mut c_void, String>) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        let name = CStr::from_bytes_with_nul(name.as_bytes());
                        let found = find(name.map_err(|e| e.to_string())?)?;
                        // SAFETY: <rdma/rsocket.h> declares the function with this type.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    rsocket: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    rbind: unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rlisten: unsafe extern "C" fn(c_int, c_int) -> c_int;
    raccept: Name;
    rconnect: unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rshutdown: unsafe extern "C" fn(c_int, c_int) -> c_int;
    rclose: unsafe extern "C" fn(c_int) -> c_int;
    rrecv: unsafe extern "C" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    rsend: unsafe extern "C" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    rwritev: unsafe extern "C" fn(c_int, *const iovec, c_int) -> ssize_t;
    rpoll: unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
    rgetpeername: Name;
    rgetsockname: Name;
    rsetsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    rgetsockopt: unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    rfcntl: unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// Whether the library was loaded, so that there may be rsockets to close.
static WAS_USED: AtomicBool = AtomicBool::new(false);

pub(crate) fn was_used() -> bool {
    WAS_USED.load(Ordering::Relaxed)
}

fn library() -> Outcome<&'static Library> {
    let found = LIBRARY.get_or_init(|| match load() {
        Ok(library) => {
            WAS_USED.store(true, Ordering::Relaxed);
            Some(library)
        }
        Err(error) => {
            say::once(&format!("{error}: all sockets stay on TCP"));
            None
        }
    });
    found.as_ref().ok_or(Errno(libc::ENODEV))
}

fn load() -> Result<Library, String> {
    let _inside = Inside::enter();
    // SAFETY: the name is a string. The library's initialisers are its own.
    let handle = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(error());
    }
    Library::find(|name| {
        // SAFETY: the handle is open, and the name is a string.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if found.is_null() {
            Err(error())
        } else {
            Ok(found)
        }
    })
}

fn error() -> String {
    // SAFETY: the call returns a string, or NULL.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("cannot load librdmacm.so.1");
    }
    // SAFETY: a string, which is this thread's until its next such call.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Calls a function of the library.
fn call(function: impl FnOnce(&Library) -> c_int) -> Outcome<c_int> {
    let library = library()?;
    let _inside = Inside::enter();
    check(function(library))
}

/// Calls a function of the library that transfers bytes.
fn transfer(function: impl FnOnce(&Library) -> ssize_t) -> Outcome<usize> {
    let library = library()?;
    let _inside = Inside::enter();
    check_size(function(library)).map(isize::cast_unsigned)
}

/// Opens a non-blocking stream rsocket.
pub(crate) fn open_stream(domain: c_int) -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let rs = call(|library| unsafe { (library.rsocket)(domain, libc::SOCK_STREAM, 0) })?;
    set_nonblocking(rs)
}

/// Closes the rsocket if this fails.
fn set_nonblocking(rs: c_int) -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    call(|library| unsafe { (library.rfcntl)(rs, libc::F_SETFL, libc::O_NONBLOCK) })
        .map(|_| rs)
        .inspect_err(|_| close(rs))
}

pub(crate) fn bind(rs: c_int, to: Address) -> Outcome<()> {
    let (raw, size) = to.raw();
    // SAFETY: the address has this size.
    call(|library| unsafe { (library.rbind)(rs, (&raw const raw).cast(), size) }).map(drop)
}

pub(crate) fn listen(rs: c_int, backlog: c_int) -> Outcome<()> {
    // SAFETY: only numbers are passed.
    call(|library| unsafe { (library.rlisten)(rs, backlog) }).map(drop)
}

/// Accepts a connection: a non-blocking rsocket, and the peer's address.
pub(crate) fn accept(rs: c_int) -> Outcome<(c_int, Option<Address>)> {
    let mut accepted = -1;
    let peer = address::from_call(|to, size| {
        // SAFETY: there is room for this size.
        accepted = call(|library| unsafe { (library.raccept)(rs, to, size) })?;
        Ok::<_, Errno>(())
    })?;
    set_nonblocking(accepted).map(|rs| (rs, peer))
}

pub(crate) fn connect(rs: c_int, to: Address) -> Outcome<()> {
    let (raw, size) = to.raw();
    // SAFETY: the address has this size.
    call(|library| unsafe { (library.rconnect)(rs, (&raw const raw).cast(), size) }).map(drop)
}

pub(crate) fn shutdown(rs: c_int, how: c_int) -> Outcome<()> {
    // SAFETY: only numbers are passed.
    call(|library| unsafe { (library.rshutdown)(rs, how) }).map(drop)
}

pub(crate) fn close(rs: c_int) {
    // SAFETY: only numbers are passed. The rsocket is gone even if this fails.
    let _ = preserve(|| call(|library| unsafe { (library.rclose)(rs) }));
}

/// Makes [`close`] wait as `SO_LINGER` says.
pub(crate) fn set_blocking(rs: c_int) {
    // SAFETY: only numbers are passed.
    let _ = preserve(|| call(|library| unsafe { (library.rfcntl)(rs, libc::F_SETFL, 0) }));
}

/// Makes [`close`] wait until the peer has received everything, at most `limit` rounded up to seconds.
/// Best effort: other libraries may not know the option.
pub(crate) fn wait_at_close(rs: c_int, limit: Duration) {
    set_blocking(rs);
    let seconds = limit.as_nanos().div_ceil(1_000_000_000);
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: c_int::try_from(seconds).unwrap_or(c_int::MAX),
    };
    let (value, size) = ((&raw const linger).cast(), size_of::<libc::linger>());
    // SAFETY: the value can be read.
    let _ = preserve(|| unsafe {
        set_option(
            rs,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            value,
            size as socklen_t,
        )
    });
}

/// # Safety
/// `size` bytes can be written to `to`.
pub(crate) unsafe fn receive(
    rs: c_int,
    to: *mut c_void,
    size: usize,
    flags: c_int,
) -> Outcome<usize> {
    // SAFETY: the caller promises the buffer.
    transfer(|library| unsafe { (library.rrecv)(rs, to, size, flags) })
}

/// # Safety
/// `size` bytes can be read from `from`.
pub(crate) unsafe fn send(rs: c_int, from: *const c_void, size: usize) -> Outcome<usize> {
    // SAFETY: the caller promises the buffer.
    transfer(|library| unsafe { (library.rsend)(rs, from, size, libc::MSG_NOSIGNAL) })
}

/// # Safety
/// The buffers can be read.
pub(crate) unsafe fn send_vectored(rs: c_int, from: &[iovec]) -> Outcome<usize> {
    // SAFETY: the caller promises the buffers.
    transfer(|library| unsafe { (library.rwritev)(rs, from.as_ptr(), from.len() as c_int) })
}

/// `rpoll`, for rsockets and the kernel's descriptors.
pub(crate) fn poll(fds: &mut [pollfd], timeout: c_int) -> Outcome<usize> {
    // SAFETY: the slice has this length.
    let count =
        call(|library| unsafe { (library.rpoll)(fds.as_mut_ptr(), fds.len() as nfds_t, timeout) })?;
    Ok(count as usize)
}

/// Polls one rsocket without waiting.
pub(crate) fn poll_one(rs: c_int, events: i16) -> i16 {
    let mut fds = [poll_set::entry(rs, events)];
    match poll(&mut fds, 0) {
        Ok(1..) => fds[0].revents,
        _ => 0,
    }
}

/// Whether the program has read everything and the peer will send no more.
pub(crate) fn is_at_end(rs: c_int) -> bool {
    let mut byte = 0_u8;
    // SAFETY: there is room for a byte.
    let received = unsafe { receive(rs, (&raw mut byte).cast(), 1, libc::MSG_PEEK) };
    !matches!(received, Ok(1..)) && received != Err(Errno(libc::EAGAIN))
}

pub(crate) fn peer_name(rs: c_int) -> Outcome<Address> {
    name(rs, |library| library.rgetpeername)
}

pub(crate) fn own_name(rs: c_int) -> Outcome<Address> {
    name(rs, |library| library.rgetsockname)
}

fn name(rs: c_int, function: impl Fn(&Library) -> Name) -> Outcome<Address> {
    let found = address::from_call(|to, size| {
        // SAFETY: there is room for this size.
        call(|library| unsafe { function(library)(rs, to, size) }).map(drop)
    })?;
    found.ok_or(Errno(libc::ENOTCONN))
}

/// # Safety
/// `size` bytes can be read from `value`.
pub(crate) unsafe fn set_option(
    rs: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    size: socklen_t,
) -> Outcome<()> {
    // SAFETY: the caller promises the value.
    call(|library| unsafe { (library.rsetsockopt)(rs, level, name, value, size) }).map(drop)
}

/// Takes the error of a connection attempt from `SO_ERROR`; 0 if there is none.
pub(crate) fn take_error(rs: c_int) -> c_int {
    let mut error: c_int = 0;
    let mut size = size_of::<c_int>() as socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: there is room for the value.
    let result = call(|library| unsafe {
        (library.rgetsockopt)(rs, level, name, (&raw mut error).cast(), &raw mut size)
    });
    result.map_or_else(|failed| failed.0, |_| error)
}

//! The C library functions that this library replaces. Each has the name and the signature of the
//! original, and forwards to it unless the call is about a socket of this library.

/// Defines replacements of C library functions. Callers keep the contract of the original.
macro_rules! replace {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty; $body:expr)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                #[expect(clippy::allow_attributes, reason = "only some bodies are safe")]
                #[allow(unused_unsafe)]
                // SAFETY: the caller promises what the C library's function asks for.
                unsafe { $body }
            }
        )*
    };
}

mod connections;
mod numbers;
mod processes;
mod system_calls;
mod transfers;
mod waits;

use crate::cancel;
use crate::errno::{Errno, call};
use crate::inside::is_inside;
use crate::kinds::{self, Kind};
use std::ffi::c_int;

/// The kind of a descriptor as the caller sees it. To librdmacm, which also polls the program's
/// descriptors, sockets and epoll instances are the kernel's.
#[inline]
fn kind(fd: c_int) -> Kind {
    match kinds::get(fd) {
        Kind::Socket | Kind::Epoll if is_inside() => Kind::Other,
        kind => kind,
    }
}

#[inline]
fn is_kernel_fd(fd: c_int) -> bool {
    kind(fd) == Kind::Other
}

/// Calls `ours`; if that returns `None`, calls `real`, which may block. Returns -1 if `ours` fails.
fn handle_or_forward<T: From<i8>>(
    real: impl Fn() -> T,
    ours: impl FnOnce() -> Result<Option<T>, Errno>,
) -> T {
    cancel::test();
    match call(Some(T::from(-1)), ours) {
        Some(result) => result,
        None => real(),
    }
}

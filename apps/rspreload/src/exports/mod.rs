//! The C library functions that this library replaces: each has the name and the signature of the
//! original, to which it passes what is not about a socket of this library.

/// Defines the functions of the C library. The caller of each promises what the original asks for.
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

/// The kind of a descriptor for the caller: librdmacm, which also polls the program's, sees the kernel's.
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

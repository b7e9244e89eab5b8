//! The C library functions that this library replaces.
//!
//! Each has the name and signature of the C library's. On the processors that this library
//! supports, a variadic function receives its arguments like one with a fixed list. So `open` and
//! `openat` always take a third argument, whether or not the caller passed one, and forward it.

use crate::place::{self, Place};
use crate::root;
use libc::{AT_FDCWD, mode_t, size_t, ssize_t};
use roce_trust::Next;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Defines functions that may call the next library's function of the same name, as `real`.
macro_rules! take_place {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty, fails $failed:expr; $real:ident => $body:expr)*) => {
        $(
            // Unit tests use the original functions of the C library.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
                let next = next::$name.get();
                if next.is_null() {
                    return fail(libc::ENOSYS, $failed);
                }
                // SAFETY: the C library's function of this name has this type.
                let $real = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>(next)
                };
                #[expect(clippy::allow_attributes, reason = "only some expansions need it")]
                #[allow(clippy::redundant_closure, reason = "most closures change an argument")]
                {
                    // SAFETY: the caller promises what the C library's function asks for.
                    let $real = |$($arg: $type),*| unsafe { $real($($arg),*) };
                    $body
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
        pub(crate) static ALL: &[&Next] = &[$(&next::$name),*];
    };
}

type Path = *const c_char;
type Status = *mut c_void;
type Stream = *mut c_void;
type Text = *mut c_char;

take_place! {
    fn open(path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags, mode))

    fn open64(path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags, mode))

    fn __open(path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags, mode))

    fn __open64(path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags, mode))

    fn __open_2(path: Path, flags: c_int) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags))

    fn __open64_2(path: Path, flags: c_int) -> c_int, fails -1;
    real => look(AT_FDCWD, path, writes(flags), -1, |path| real(path, flags))

    fn openat(at: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(at, path, writes(flags), -1, |path| real(at, path, flags, mode))

    fn openat64(at: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int, fails -1;
    real => look(at, path, writes(flags), -1, |path| real(at, path, flags, mode))

    fn __openat_2(at: c_int, path: Path, flags: c_int) -> c_int, fails -1;
    real => look(at, path, writes(flags), -1, |path| real(at, path, flags))

    fn __openat64_2(at: c_int, path: Path, flags: c_int) -> c_int, fails -1;
    real => look(at, path, writes(flags), -1, |path| real(at, path, flags))

    fn creat(path: Path, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, true, -1, |path| real(path, mode))

    fn creat64(path: Path, mode: mode_t) -> c_int, fails -1;
    real => look(AT_FDCWD, path, true, -1, |path| real(path, mode))

    fn fopen(path: Path, mode: Path) -> Stream, fails NOTHING;
    real => look(AT_FDCWD, path, stream_writes(path, mode), NOTHING, |path| real(path, mode))

    fn fopen64(path: Path, mode: Path) -> Stream, fails NOTHING;
    real => look(AT_FDCWD, path, stream_writes(path, mode), NOTHING, |path| real(path, mode))

    fn freopen(path: Path, mode: Path, stream: Stream) -> Stream, fails NOTHING;
    real => look(AT_FDCWD, path, stream_writes(path, mode), NOTHING, |path| real(path, mode, stream))

    fn freopen64(path: Path, mode: Path, stream: Stream) -> Stream, fails NOTHING;
    real => look(AT_FDCWD, path, stream_writes(path, mode), NOTHING, |path| real(path, mode, stream))

    fn stat(path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, to))

    fn stat64(path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, to))

    fn lstat(path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, to))

    fn lstat64(path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, to))

    fn fstatat(at: c_int, path: Path, to: Status, flags: c_int) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(at, path, to, flags))

    fn fstatat64(at: c_int, path: Path, to: Status, flags: c_int) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(at, path, to, flags))

    fn statx(at: c_int, path: Path, flags: c_int, mask: c_uint, to: Status) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(at, path, flags, mask, to))

    fn __xstat(version: c_int, path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(version, path, to))

    fn __xstat64(version: c_int, path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(version, path, to))

    fn __lxstat(version: c_int, path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(version, path, to))

    fn __lxstat64(version: c_int, path: Path, to: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(version, path, to))

    fn __fxstatat(version: c_int, at: c_int, path: Path, to: Status, flags: c_int) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(version, at, path, to, flags))

    fn __fxstatat64(version: c_int, at: c_int, path: Path, to: Status, flags: c_int) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(version, at, path, to, flags))

    fn access(path: Path, mode: c_int) -> c_int, fails -1;
    real => look(AT_FDCWD, path, mode & libc::W_OK != 0, -1, |path| real(path, mode))

    fn euidaccess(path: Path, mode: c_int) -> c_int, fails -1;
    real => look(AT_FDCWD, path, mode & libc::W_OK != 0, -1, |path| real(path, mode))

    fn eaccess(path: Path, mode: c_int) -> c_int, fails -1;
    real => look(AT_FDCWD, path, mode & libc::W_OK != 0, -1, |path| real(path, mode))

    fn faccessat(at: c_int, path: Path, mode: c_int, flags: c_int) -> c_int, fails -1;
    real => look(at, path, mode & libc::W_OK != 0, -1, |path| real(at, path, mode, flags))

    fn opendir(path: Path) -> Stream, fails NOTHING;
    real => look(AT_FDCWD, path, false, NOTHING, |path| real(path))

    fn scandir(path: Path, list: Status, filter: Status, order: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, list, filter, order))

    fn scandir64(path: Path, list: Status, filter: Status, order: Status) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path, list, filter, order))

    fn scandirat(at: c_int, path: Path, list: Status, filter: Status, order: Status) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(at, path, list, filter, order))

    fn scandirat64(at: c_int, path: Path, list: Status, filter: Status, order: Status) -> c_int, fails -1;
    real => look(at, path, false, -1, |path| real(at, path, list, filter, order))

    fn chdir(path: Path) -> c_int, fails -1;
    real => look(AT_FDCWD, path, false, -1, |path| real(path))

    fn readlink(path: Path, to: Text, size: size_t) -> ssize_t, fails -1;
    real => shown_link(to, look(AT_FDCWD, path, false, -1, |path| real(path, to, size)))

    fn readlinkat(at: c_int, path: Path, to: Text, size: size_t) -> ssize_t, fails -1;
    real => shown_link(to, look(at, path, false, -1, |path| real(at, path, to, size)))

    fn __readlink_chk(path: Path, to: Text, size: size_t, room: size_t) -> ssize_t, fails -1;
    real => shown_link(to, look(AT_FDCWD, path, false, -1, |path| real(path, to, size, room)))

    fn __readlinkat_chk(at: c_int, path: Path, to: Text, size: size_t, room: size_t) -> ssize_t, fails -1;
    real => shown_link(to, look(at, path, false, -1, |path| real(at, path, to, size, room)))

    fn realpath(path: Path, to: Text) -> Text, fails NO_TEXT;
    real => resolve(path, to, |path, to| real(path, to))

    fn __realpath_chk(path: Path, to: Text, room: size_t) -> Text, fails NO_TEXT;
    real => resolve(path, to, |path, to| real(path, to, room))

    fn canonicalize_file_name(path: Path) -> Text, fails NO_TEXT;
    real => resolve(path, NO_TEXT, |path, _| real(path))

    fn getcwd(to: Text, size: size_t) -> Text, fails NO_TEXT;
    real => shown(real(to, size))

    fn __getcwd_chk(to: Text, size: size_t, room: size_t) -> Text, fails NO_TEXT;
    real => shown(real(to, size, room))
}

const NOTHING: *mut c_void = std::ptr::null_mut();
const NO_TEXT: Text = std::ptr::null_mut();

fn fail<T>(errno: c_int, failed: T) -> T {
    // SAFETY: the address is that of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    failed
}

/// Calls `real` with the program's path, or with the real path of the generated file that it
/// names.
#[inline]
fn look<T>(at: c_int, path: Path, writes: bool, failed: T, real: impl FnOnce(Path) -> T) -> T {
    if place::may_be_made_up(path) {
        look_closer(at, path, writes, failed, real)
    } else {
        real(path)
    }
}

#[cold]
#[inline(never)]
fn look_closer<T>(
    at: c_int,
    path: Path,
    writes: bool,
    failed: T,
    real: impl FnOnce(Path) -> T,
) -> T {
    match place::find(at, path) {
        None => real(path),
        // As in a namespace, where the file system is mounted read-only.
        Some(place) if writes && place.device().is_none() => fail(libc::EROFS, failed),
        Some(place) => real(place.as_ptr()),
    }
}

fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
}

/// Whether a mode of `fopen` allows writing. It is not checked for most paths.
fn stream_writes(path: Path, mode: Path) -> bool {
    if !place::may_be_made_up(path) || mode.is_null() {
        return false;
    }
    // SAFETY: the caller of `fopen` promises a string.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    // A character set follows a comma.
    let flags = mode.split(|byte| *byte == b',').next().unwrap_or(mode);
    flags.iter().any(|flag| matches!(flag, b'w' | b'a' | b'+'))
}

/// `realpath`: the result shows generated files under the program's names for them.
#[inline]
fn resolve(path: Path, to: Text, real: impl FnOnce(Path, Text) -> Text) -> Text {
    if place::may_be_made_up(path) {
        resolve_closer(path, to, real)
    } else {
        shown(real(path, to))
    }
}

#[cold]
#[inline(never)]
fn resolve_closer(path: Path, to: Text, real: impl FnOnce(Path, Text) -> Text) -> Text {
    let Some(place) = place::find(AT_FDCWD, path) else {
        return shown(real(path, to));
    };
    match place.device() {
        // The link leads to another device, but the program asked for this one.
        Some(device) => copy(&place, device, to),
        None => shown(real(place.as_ptr(), to)),
    }
}

/// Copies the path of a device to `realpath`'s result.
fn copy(_: &Place, device: &place::Path, to: Text) -> Text {
    let bytes = device.as_bytes();
    let bytes = bytes.get(root::hidden_prefix(bytes)..).unwrap_or(bytes);
    if to.is_null() {
        // SAFETY: the bytes have no zero inside. The caller frees the copy, as it would free
        // what `realpath` allocates.
        return unsafe { libc::strndup(bytes.as_ptr().cast(), bytes.len()) };
    }
    // SAFETY: the caller of `realpath` promises room for the longest path, and this one is
    // shorter: see `place::Path`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
        *to.add(bytes.len()) = 0;
    }
    to
}

/// Removes the folder of the generated files from a path that the C library returned.
fn shown(path: Text) -> Text {
    if !path.is_null() && root::get().is_some() {
        // SAFETY: the C library gave a string.
        let bytes = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
        let hidden = root::hidden_prefix(bytes);
        let left = bytes.len() - hidden;
        // SAFETY: both lie within the string.
        unsafe { std::ptr::copy(path.add(hidden), path, left) };
    }
    path
}

/// The same for the target of a link, which is not zero-terminated.
fn shown_link(target: Text, length: ssize_t) -> ssize_t {
    let Ok(count) = usize::try_from(length) else {
        return length;
    };
    if root::get().is_none() {
        return length;
    }
    // SAFETY: the C library wrote this many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(target.cast::<u8>(), count) };
    let hidden = root::hidden_prefix(bytes);
    // SAFETY: both lie within what was written.
    unsafe { std::ptr::copy(target.add(hidden), target, count - hidden) };
    length - hidden.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_is_an_older_version() {
        for next in ALL {
            testkit::check_version(next.name(), next.version());
        }
    }
}

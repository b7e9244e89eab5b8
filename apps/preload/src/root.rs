//! The folder of the generated files.

use crate::maker;
use crate::{MAX_BYTES, VARIABLE};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static ROOT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Its path without a trailing slash; `None` if there are no generated files, or before this
/// library is initialised.
#[inline]
pub(crate) fn get() -> Option<&'static [u8]> {
    let start = ROOT.load(Ordering::Acquire);
    if start.is_null() {
        return None;
    }
    // SAFETY: `set` stored the address and the length of a string that is never freed.
    Some(unsafe { std::slice::from_raw_parts(start, LENGTH.load(Ordering::Relaxed)) })
}

/// Whether there are generated files, or a command that can make them.
#[inline]
pub(crate) fn may_exist() -> bool {
    get().is_some() || maker::is_ready()
}

/// The folder, as [`get`] says. If there is none, and a command can make it, the first call waits for
/// the command.
pub(crate) fn get_or_make() -> Option<&'static [u8]> {
    get().or_else(|| {
        maker::make_once(set);
        get()
    })
}

/// Reads the folder from the environment, which the program may change later. Without the variable, the
/// command beside this library makes the folder when it is needed.
pub(crate) fn read_environment() {
    if roce_trust::environment::is_ignored() {
        return;
    }
    // SAFETY: the name is a string. Nothing else runs while libraries are initialised.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        maker::find();
        return;
    }
    // SAFETY: an entry of the environment is a string.
    set(unsafe { CStr::from_ptr(value) }.to_bytes());
}

/// Stores the folder. A value that is no absolute path, or too long, is ignored.
fn set(value: &[u8]) {
    let trimmed = value.strip_suffix(b"/").unwrap_or(value);
    if trimmed.first() != Some(&b'/') || trimmed.len() > MAX_BYTES {
        return;
    }
    // SAFETY: the string has no zero inside. The copy is never freed.
    let copy: *mut c_char = unsafe { libc::strndup(trimmed.as_ptr().cast(), trimmed.len()) };
    if copy.is_null() {
        return;
    }
    LENGTH.store(trimmed.len(), Ordering::Relaxed);
    ROOT.store(copy.cast(), Ordering::Release);
}

/// The number of leading bytes to remove from a path that the kernel returned, so that a file in
/// the folder has the program's name for it.
pub(crate) fn hidden_prefix(path: &[u8]) -> usize {
    let Some(root) = get() else { return 0 };
    match path.strip_prefix(root) {
        Some(rest) if rest.starts_with(b"/sys") || rest.starts_with(b"/dev") => root.len(),
        _ => 0,
    }
}

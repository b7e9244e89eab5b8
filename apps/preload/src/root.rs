//! The folder of the generated files.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The variable that names the folder.
const VARIABLE: &CStr = c"ROCE_FILES";

/// The limit for its path, which leaves room for the paths in it.
const MAX_BYTES: usize = 1024;

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

/// Reads the folder from the environment, which the program may change later.
pub(crate) fn read_environment() {
    if roce_trust::environment::is_ignored() {
        return;
    }
    // SAFETY: the name is a string. Nothing else runs while libraries are initialised.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: an entry of the environment is a string.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
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

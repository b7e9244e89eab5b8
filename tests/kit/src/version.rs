//! Versions of the C library's functions.

use std::ffi::CStr;

/// The first versions that a function of glibc may have: those of x86-64, ARM and RISC-V.
const FIRST: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.27"];

/// Checks the version in which a preloaded library looks up the function `name` that it replaces. It must be the one to
/// which programs are linked, and may be `None` only if the C library has no older one: `dlsym(RTLD_NEXT)` returns
/// the oldest version before glibc 2.36.
///
/// # Panics
/// If it is another version.
pub fn check_version(name: &CStr, version: Option<&CStr>) {
    let find = |version: &CStr| {
        // SAFETY: the name and the version are strings.
        unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), version.as_ptr()) }
    };
    // SAFETY: the name is a string.
    let linked = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let looked_up = match version {
        Some(version) => find(version),
        None => FIRST
            .map(find)
            .into_iter()
            .find(|it| !it.is_null())
            .unwrap_or(linked),
    };
    assert_eq!(looked_up, linked, "{name:?}, {version:?}");
}

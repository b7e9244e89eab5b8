//! The steps when the library is loaded.

use std::ffi::{c_char, c_int};

/// Looks up all functions, so that later calls don't have to.
fn find_all() {
    for next in crate::exports::ALL {
        next.get();
    }
}

/// Runs when the library is loaded, before `main`.
extern "C" fn initialise(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    find_all();
    crate::root::read_environment();
}

#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = initialise;

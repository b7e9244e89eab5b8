//! Initialises the library when it is loaded, before `main`.

use crate::{errno, exit, fork, go, real, say, settings};
use std::ffi::{c_char, c_int};

extern "C" fn initialise(_: c_int, _: *const *const c_char, _: *const *const c_char) {
    real::find_all();
    errno::call((), || {
        if let Some(word) = settings::unknown_word() {
            say::once(&format!(
                "ROCE_SOCKETS: unknown word {word:?}; expected off, only, loopback, quiet, log or \
                 wait=MILLISECONDS"
            ));
        }
        if !settings::get().is_off {
            fork::register();
            exit::register();
            if go::is_program() {
                say::once(
                    "this is a Go program: Go's network package makes system calls itself, so its sockets use TCP",
                );
            }
        }
        Ok(())
    });
}

#[used]
// SAFETY: the section holds pointers to functions of this type.
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = initialise;

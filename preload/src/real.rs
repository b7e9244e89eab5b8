//! The original functions that this library replaces.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next library's function of this name.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; NULL if this C library lacks it.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    /// Looks the function up. This is done for all functions when the library is loaded; a library
    /// that is initialised earlier may call before that.
    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Looks up all functions, so that later calls don't have to.
fn find_all() {
    for next in crate::exports::ALL {
        crate::place::keeping_errno(|| next.get());
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

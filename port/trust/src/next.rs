//! The functions that a preloaded library replaces.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The function of a name in the next library of the search order.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The next function of this name. Nothing is looked up yet.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; NULL if no library has it. Leaves `errno` as it was.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    /// Looks the function up. A library calls [`Next::get`] for all its functions when it is loaded, but
    /// libraries that are initialised earlier may call before that.
    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the address is that of this thread's errno, and the name is a string.
        let found = unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let found = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            *errno = before;
            found
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

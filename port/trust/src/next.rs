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

    /// The name of the function.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// The version of the function to which programs are linked, if glibc also has an older one, which is what
    /// `dlsym(RTLD_NEXT)` returns before glibc 2.36. The older `realpath` fails if it is to allocate.
    pub fn version(&self) -> Option<&'static CStr> {
        let is_realpath = cfg!(target_arch = "x86_64") && self.name == c"realpath";
        is_realpath.then_some(c"GLIBC_2.3")
    }

    /// Looks the function up. A library calls [`Next::get`] for all its functions when it is loaded, but
    /// libraries that are initialised earlier may call before that.
    #[cold]
    fn find(&self) -> *mut c_void {
        let name = self.name.as_ptr();
        // SAFETY: the address is that of this thread's errno, and the name and the version are strings.
        let found = unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let found = match self.version() {
                // A library without versions, such as a sanitizer's, has every version.
                #[cfg(target_env = "gnu")]
                Some(version) => libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()),
                _ => libc::dlsym(libc::RTLD_NEXT, name),
            };
            *errno = before;
            found
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

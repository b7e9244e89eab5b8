//! Values that belong to one process. A forked child starts with new ones: its parent's may be locked
//! for ever, and name sockets and threads that stay with the parent.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A value, made when it is first used.
pub(crate) struct PerProcess<T: 'static> {
    current: AtomicPtr<Made<T>>,
    shared: PhantomData<&'static T>,
}

struct Made<T> {
    /// The forks before it was made.
    forks: usize,
    value: T,
}

/// The number of forks between the process that loaded this code and this process.
static FORKS: AtomicUsize = AtomicUsize::new(0);

impl<T: Default + Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            shared: PhantomData,
        }
    }

    /// The value, which is made if there is none.
    pub(crate) fn get(&self) -> &'static T {
        self.existing().unwrap_or_else(|| self.make())
    }

    pub(crate) fn existing(&self) -> Option<&'static T> {
        // SAFETY: values are leaked, so a pointer that is not null stays valid.
        let made = unsafe { self.current.load(Ordering::Acquire).as_ref() }?;
        (made.forks == FORKS.load(Ordering::Relaxed)).then_some(&made.value)
    }

    fn make(&self) -> &'static T {
        // Before there is anything that a child must not use.
        count_forks();
        let before = self.current.load(Ordering::Acquire);
        // Another thread may have made it.
        if let Some(value) = self.existing() {
            return value;
        }
        let new = Box::into_raw(Box::new(Made {
            forks: FORKS.load(Ordering::Relaxed),
            value: T::default(),
        }));
        let stored =
            self.current
                .compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire);
        let current = match stored {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: it came from the box above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: values that were stored are leaked, and none is replaced but by a value.
        unsafe { &(*current).value }
    }
}

/// Counts forks from now on. If two threads register the handler at the same time, children count
/// two, which is as good. If the system has no memory for it, a child sees its parent's sockets,
/// and every use of them fails there.
fn count_forks() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the handler only changes an atomic, which is async-signal-safe, and this code is
        // never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        REGISTERED.store(true, Ordering::Release);
    }
}

/// Called in a forked child.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

//! Values that belong to one process. A forked child starts with new ones: the parent's may be locked
//! forever, and refer to sockets and threads that the child lacks.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A value that is created on first use.
pub(crate) struct PerProcess<T: 'static> {
    current: AtomicPtr<Instance<T>>,
    shared: PhantomData<&'static T>,
}

struct Instance<T> {
    /// The value of [`FORKS`] when it was created.
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

    /// The value, created if there is none.
    pub(crate) fn get(&self) -> &'static T {
        self.existing().unwrap_or_else(|| self.make())
    }

    pub(crate) fn existing(&self) -> Option<&'static T> {
        // SAFETY: values are leaked, so a pointer that is not null stays valid.
        let instance = unsafe { self.current.load(Ordering::Acquire).as_ref() }?;
        (instance.forks == FORKS.load(Ordering::Relaxed)).then_some(&instance.value)
    }

    fn make(&self) -> &'static T {
        // Count forks before there is a value that a child must not use.
        count_forks();
        let before = self.current.load(Ordering::Acquire);
        // Another thread may have created it.
        if let Some(value) = self.existing() {
            return value;
        }
        let new = Box::into_raw(Box::new(Instance {
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
        // SAFETY: stored values are leaked, and only ever replaced by another value.
        unsafe { &(*current).value }
    }
}

/// Starts counting forks. If two threads register the handler at the same time, a fork counts twice,
/// which is harmless. If registering fails for lack of memory, a child sees its parent's sockets, and
/// every use of them fails.
fn count_forks() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the handler only changes an atomic, which is async-signal-safe, and this code is
        // never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        REGISTERED.store(true, Ordering::Release);
    }
}

/// Runs in a forked child.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

//! Detects forks. A forked child has a copy of its parent's memory, but not of its threads, and shares its
//! sockets. So the child must not use its parent's NIC: that would affect the parent.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// A value that belongs to one process, and is created on first use. A forked child starts with a new one:
/// the parent's may be locked forever, and refer to sockets and threads that the child lacks.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    current: AtomicPtr<Instance<T>>,
    shared: PhantomData<&'static T>,
}

struct Instance<T> {
    /// The [`generation`] in which it was created.
    generation: u32,
    value: T,
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

impl<T: Default + Send + Sync> PerProcess<T> {
    /// No value yet.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            shared: PhantomData,
        }
    }

    /// The value, created if there is none.
    pub fn get(&self) -> &'static T {
        self.existing().unwrap_or_else(|| self.make())
    }

    /// The value of this process, if there is one; never its parent's. Takes no lock and allocates nothing.
    pub fn existing(&self) -> Option<&'static T> {
        // SAFETY: values are leaked, so a pointer that is not null stays valid.
        let instance = unsafe { self.current.load(Ordering::Acquire).as_ref() }?;
        (instance.generation == generation()).then_some(&instance.value)
    }

    fn make(&self) -> &'static T {
        // Before there is a value that a child must not use. If this fails, the child sees its parent's
        // sockets, and every use of them fails.
        let _ = register_handler();
        let before = self.current.load(Ordering::Acquire);
        // Another thread may have created it.
        if let Some(value) = self.existing() {
            return value;
        }
        let new = Box::into_raw(Box::new(Instance {
            generation: generation(),
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

/// Starts counting forks. If two threads call this for the first time, a fork counts twice, which is
/// harmless.
///
/// # Errors
/// If there is no memory left: then children take their parent's objects for their own.
pub fn register_handler() -> io::Result<()> {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // SAFETY: the handler only increments an atomic, which is async-signal-safe, and this code is
        // never unloaded.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        REGISTERED.store(true, Ordering::Release);
    }
    Ok(())
}

/// The number of forks between the process that loaded this code and this process, from
/// [`register_handler`] on. It identifies the process among its parents and children.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Called at the fork, in the child, which has no other thread yet.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

//! Marks threads while they run librdmacm. Descriptors that they create are the library's, and their
//! calls go to the kernel.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Marks this thread as running librdmacm until dropped.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Whether this thread runs librdmacm.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

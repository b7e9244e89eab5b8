//! What a NIC offers for memory beyond plain registration.

use super::Nic;
use crate::memory::{DeregisterError, PdId, RegisterError, WindowId, WindowType};

impl Nic {
    /// Forgets a region, but not while windows are bound to it.
    ///
    /// # Errors
    /// See [`DeregisterError`].
    pub fn deregister_unbound(&mut self, key: u32) -> Result<(), DeregisterError> {
        self.memory.deregister_unbound(key)
    }

    /// A memory window, which is bound by [`SendOp::BindMw`](crate::SendOp).
    ///
    /// # Errors
    /// If the protection domain is unknown.
    pub fn alloc_window(&mut self, pd: PdId, kind: WindowType) -> Result<WindowId, RegisterError> {
        self.memory.alloc_window(&mut self.rng, pd, kind)
    }

    /// Forgets a window; nothing is accessed through it from now on. Returns whether
    /// there was one.
    pub fn dealloc_window(&mut self, window: WindowId) -> bool {
        self.memory.dealloc_window(window)
    }

    /// Low 8 bits for the key of a window's next binding, other than those of its
    /// last; `None` if there is no such window.
    pub fn next_window_key(&mut self, window: WindowId) -> Option<u8> {
        self.memory.next_window_key(&mut self.rng, window)
    }
}

//! What a NIC offers for memory beyond plain registration.

use super::Nic;
use crate::memory::{
    Access, AccessError, DeregisterError, Memory, PdId, RegisterError, Reregister, ReregisterError,
    WindowId, WindowType,
};
use crate::wr::Sge;

impl Nic {
    /// Registers memory of any kind; see [`MemoryTable::register_memory`].
    ///
    /// [`MemoryTable::register_memory`]: crate::MemoryTable::register_memory
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register_memory(
        &mut self,
        pd: PdId,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<u32, RegisterError> {
        self.memory
            .register_memory(&mut self.rng, pd, memory, iova, access)
    }

    /// Changes memory, rights or protection domain of a region, whose key stays (IBTA
    /// 1.7, 11.2.8.5). What is under way finds the region changed from one packet to
    /// the next.
    ///
    /// # Errors
    /// See [`ReregisterError`]; the region is as it was.
    pub fn reregister(&mut self, key: u32, change: Reregister) -> Result<(), ReregisterError> {
        self.memory.reregister(key, change)
    }

    /// Where the bytes of a request's element are in this process, if perhaps nothing is
    /// mapped there; `None` if they are in a region that is not on demand.
    ///
    /// # Errors
    /// If requests of `pd` may not use the element so.
    pub fn on_demand_address(
        &self,
        pd: PdId,
        element: &Sge,
        rights: Access,
    ) -> Result<Option<u64>, AccessError> {
        let Sge { addr, length, lkey } = *element;
        let span = self.memory.local(pd, lkey, addr, length.into(), rights)?;
        Ok(span.on_demand_address())
    }

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

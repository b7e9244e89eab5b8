//! The memory calls of [`Nic`] other than plain registration.

use super::Nic;
use crate::memory::{
    Access, AccessError, DeregisterError, Memory, MwId, MwType, PdId, RegisterError, Reregister,
    ReregisterError,
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
        self.shared
            .memory
            .register_memory(&mut self.rng, pd, memory, iova, access)
    }

    /// Changes memory, rights or protection domain of a region, whose key stays (IBTA 1.7,
    /// 11.2.8.5). A request in progress finds the region changed from one packet to the next.
    ///
    /// # Errors
    /// See [`ReregisterError`]; the region is as it was.
    pub fn reregister(&mut self, key: u32, change: Reregister) -> Result<(), ReregisterError> {
        self.shared.memory.reregister(key, change)
    }

    /// The address in this process of an element's bytes, if its region is on demand, so that the
    /// pages there may be unmapped. `None` if the region is not on demand.
    ///
    /// # Errors
    /// If requests of `pd` may not use the element with these rights.
    pub fn on_demand_address(
        &self,
        pd: PdId,
        element: &Sge,
        rights: Access,
    ) -> Result<Option<u64>, AccessError> {
        let Sge { addr, length, lkey } = *element;
        let span = self
            .shared
            .memory
            .local(pd, lkey, addr, length.into(), rights)?;
        Ok(span.on_demand_address())
    }

    /// Deregisters a region, unless windows are bound to it.
    ///
    /// # Errors
    /// See [`DeregisterError`].
    pub fn deregister_unbound(&mut self, key: u32) -> Result<(), DeregisterError> {
        self.shared.memory.deregister_unbound(key)
    }

    /// Makes a region unusable, because its memory is gone: from now on each access fails. Its key
    /// stays taken until it is deregistered. Does nothing if no region has this key.
    pub fn lose_memory(&mut self, key: u32) {
        self.shared.memory.lose_memory(key);
    }

    /// Allocates a memory window, which [`SendOp::BindMw`](crate::SendOp) binds.
    ///
    /// # Errors
    /// If the protection domain is unknown.
    pub fn alloc_mw(&mut self, pd: PdId, kind: MwType) -> Result<MwId, RegisterError> {
        self.shared.memory.alloc_mw(&mut self.rng, pd, kind)
    }

    /// Deallocates a window; from now on nothing is accessed through it. Returns whether the window
    /// existed.
    pub fn dealloc_mw(&mut self, window: MwId) -> bool {
        self.shared.memory.dealloc_mw(window)
    }

    /// Draws the low 8 bits for the key of a window's next binding. They differ from those of its
    /// last key. `None` if there is no such window.
    pub fn next_mw_key(&mut self, window: MwId) -> Option<u8> {
        self.shared.memory.next_mw_key(&mut self.rng, window)
    }
}

//! The parts common to all kinds of registered memory: keys, rights, and a range of addresses.

use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{
    Access, AccessError, BufferRangeError, DeregisterError, Memory, RemoteAddr, Reregister,
    ReregisterError, Sge,
};
use std::sync::Arc;

/// Registered memory of any kind, created by [`ProtectionDomain::register_memory`]. Peers may
/// access it, within its rights, until it is dropped. Dropping it unbinds its windows.
#[derive(Debug)]
pub struct Registration {
    pd: ProtectionDomain,
    key: u32,
    addr: u64,
    len: u64,
    access: Access,
}

/// A key that no region has. It marks a registration that is already deregistered.
const NO_KEY: u32 = 0;

impl ProtectionDomain {
    /// Registers memory of any kind. Work requests and peers address its first byte as `iova`, or,
    /// if that is `None`, by its own address.
    ///
    /// - [`Memory::null`] reads as zeros and discards what is written to it.
    /// - [`Memory::on_demand`] and [`Memory::whole_address_space`] need not be mapped; their
    ///   accessor is [`ProcessMemory`](crate::memory::ProcessMemory).
    /// - [`Memory::foreign`] is memory of any owner. The caller promises that it stays mapped while
    ///   it is registered.
    ///
    /// # Errors
    /// If `access` allows remote writes or atomics without [`Access::LOCAL_WRITE`], or the memory
    /// can't have these rights.
    pub fn register_memory(
        &self,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Registration, RegionError> {
        let (addr, len) = (iova.unwrap_or(memory.addr()), memory.len());
        let mut engine = self.context.inner.shared.lock();
        let key = engine.nic.register_memory(self.id, memory, iova, access)?;
        let injector = self.context.inner.injector.as_ref();
        if injector.is_some_and(|injector| injector.strikes_region()) {
            engine.nic.lose_memory(key);
        }
        drop(engine);
        Ok(Registration {
            pd: self.clone(),
            key,
            addr,
            len,
            access,
        })
    }

    /// The address, in this process, of the bytes of a request's element, if it belongs to an
    /// on-demand region. Its pages may not be mapped yet, so the caller can prefetch them. `None`
    /// if the region is of another kind.
    ///
    /// # Errors
    /// If requests of this domain may not use the element with these rights.
    pub fn on_demand_address(
        &self,
        element: &Sge,
        rights: Access,
    ) -> Result<Option<u64>, AccessError> {
        let engine = self.context.inner.shared.lock();
        engine.nic.on_demand_address(self.id, element, rights)
    }
}

impl Registration {
    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// The address by which work requests and peers name the first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The rights that it was registered with, or has been changed to.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `offset` on, for a work request.
    ///
    /// # Errors
    /// If they reach beyond the end, or `len` is more than a work request can name.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Sge, RegionError> {
        self.check(offset, len)?;
        let length = u32::try_from(len).map_err(|_| self.range_error(offset, len))?;
        Ok(Sge {
            addr: self.addr + offset,
            length,
            lkey: self.key,
        })
    }

    /// Checks that the bytes lie within the registered memory.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        if offset <= self.len && len <= self.len - offset {
            Ok(())
        } else {
            Err(self.range_error(offset, len))
        }
    }

    fn range_error(&self, offset: u64, len: u64) -> RegionError {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        RegionError::Range(BufferRangeError {
            offset: size(offset),
            len: size(len),
            buffer_len: size(self.len),
        })
    }

    /// The address and key with which a peer accesses the bytes from `offset` on.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr {
            addr: self.addr.wrapping_add(offset),
            rkey: self.key,
        }
    }

    /// Changes the protection domain, the rights, the memory, or several of these, without changing
    /// the keys, like `ibv_rereg_mr`. The second value in `memory` is the address by which work
    /// requests and peers name the first byte; `None` means the memory's own address.
    ///
    /// # Errors
    /// See [`ReregisterError`]. The region is then unchanged.
    pub fn reregister(
        &mut self,
        pd: Option<&ProtectionDomain>,
        access: Option<Access>,
        memory: Option<(Memory, Option<u64>)>,
    ) -> Result<(), ReregisterError> {
        let range = memory
            .as_ref()
            .map(|(memory, iova)| (iova.unwrap_or(memory.addr()), memory.len()));
        let id = match pd {
            Some(pd) if !Arc::ptr_eq(&pd.context.inner, &self.pd.context.inner) => {
                let error = roce_stack::RegisterError::UnknownPd;
                return Err(ReregisterError::Register(error));
            }
            other => other.map(|pd| pd.id),
        };
        let change = Reregister {
            pd: id,
            access,
            memory,
        };
        let mut engine = self.pd.context.inner.shared.lock();
        engine.nic.reregister(self.key, change)?;
        drop(engine);
        (self.addr, self.len) = range.unwrap_or((self.addr, self.len));
        self.access = access.unwrap_or(self.access);
        if let Some(pd) = pd {
            self.pd = pd.clone();
        }
        Ok(())
    }

    /// Makes the registration unusable, because the program is unmapping its memory: requests that
    /// need it fail, from the next packet on. The keys stay taken until it is dropped.
    pub fn lose_memory(&self) {
        let mut engine = self.pd.context.inner.shared.lock();
        engine.nic.lose_memory(self.key);
    }

    /// Deregisters the memory, unless windows are bound to it. Dropping the value deregisters it in
    /// any case, and unbinds them.
    ///
    /// # Errors
    /// If windows are bound to it; the error returns the registration.
    pub fn deregister(mut self) -> Result<(), (Self, DeregisterError)> {
        let mut engine = self.pd.context.inner.shared.lock();
        let result = engine.nic.deregister_unbound(self.key);
        drop(engine);
        match result {
            Ok(()) => {
                self.key = NO_KEY;
                Ok(())
            }
            Err(error) => Err((self, error)),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.key != NO_KEY {
            self.pd.context.inner.shared.lock().nic.deregister(self.key);
        }
    }
}

//! What every kind of registered memory has: keys, rights, a range of addresses.

use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{
    Access, AccessError, BufferRange, DeregisterError, Memory, RemoteAddr, Reregister,
    ReregisterError, Sge,
};
use std::sync::Arc;

/// Registered memory of any kind, made by
/// [`ProtectionDomain::register_memory`]. Peers may access it, as its rights allow,
/// until it is dropped; windows that are bound to it then are unbound.
#[derive(Debug)]
pub struct Registration {
    pd: ProtectionDomain,
    key: u32,
    addr: u64,
    len: u64,
}

/// No region has this key: it stands for one that is deregistered already.
const NO_KEY: u32 = 0;

impl ProtectionDomain {
    /// Registers memory of any kind, whose first byte work requests and peers are to
    /// call `iova`, or by its own address.
    ///
    /// - [`Memory::null`] reads as zeros and swallows what is written to it.
    /// - [`Memory::on_demand`] and [`Memory::whole_address_space`] need not be mapped;
    ///   their accessor is [`ProcessMemory`](crate::memory::ProcessMemory).
    /// - [`Memory::foreign`] is the caller's, who promises to keep it.
    ///
    /// # Errors
    /// If the rights contradict each other, or the memory can't have them.
    pub fn register_memory(
        &self,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Registration, RegionError> {
        Registration::new(self.clone(), memory, iova, access)
    }

    /// Where the bytes of a request's element are in this process, if perhaps nothing is
    /// mapped there: of an on-demand region, whose pages can be fetched ahead. `None` if
    /// the region is of another kind.
    ///
    /// # Errors
    /// If requests of this domain may not use the element so.
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
    fn new(
        pd: ProtectionDomain,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Self, RegionError> {
        let (addr, len) = (iova.unwrap_or(memory.addr()), memory.len());
        let mut engine = pd.context.inner.shared.lock();
        let key = engine.nic.register_memory(pd.id, memory, iova, access)?;
        drop(engine);
        Ok(Self { pd, key, addr, len })
    }

    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// What work requests and peers call its first byte.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `offset` on, for a work request.
    ///
    /// # Errors
    /// If they reach beyond the end, or are more than a work request can name.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Sge, RegionError> {
        self.check(offset, len)?;
        let length = u32::try_from(len).map_err(|_| self.range(offset, len))?;
        Ok(Sge {
            addr: self.addr + offset,
            length,
            lkey: self.key,
        })
    }

    /// Whether the bytes lie in it.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        if offset <= self.len && len <= self.len - offset {
            Ok(())
        } else {
            Err(self.range(offset, len))
        }
    }

    fn range(&self, offset: u64, len: u64) -> RegionError {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        RegionError::Range(BufferRange {
            offset: size(offset),
            len: size(len),
            buffer_len: size(self.len),
        })
    }

    /// What a peer needs to access the bytes from `offset` on.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr {
            addr: self.addr.wrapping_add(offset),
            rkey: self.key,
        }
    }

    /// Changes protection domain, rights, memory, or several of them, without changing
    /// the keys, as `ibv_rereg_mr` does. The new memory is called by its own address,
    /// or by `iova`.
    ///
    /// # Errors
    /// See [`ReregisterError`]; the region is as it was.
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
        if let Some(pd) = pd {
            self.pd = pd.clone();
        }
        Ok(())
    }

    /// Deregisters it, but not while windows are bound to it; dropping it takes their
    /// memory from under them.
    ///
    /// # Errors
    /// With the region itself, if windows are bound to it.
    pub fn deregister(mut self) -> Result<(), (Self, DeregisterError)> {
        let mut engine = self.pd.context.inner.shared.lock();
        let done = engine.nic.deregister_unbound(self.key);
        drop(engine);
        match done {
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

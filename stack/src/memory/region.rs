//! Regions: memory with a key, a protection domain and rights.

use super::backing::Backing;
use super::{Access, AccessError, Durable, Extent, Memory, MemoryTable, PdId, RegisterError, Span};
use core::hint::cold_path;
use rand_core::Rng;
use std::sync::Arc;

/// A registered region.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) pd: PdId,
    memory: Memory,
    /// The address of the first byte, as work requests and peers use it.
    iova: u64,
    pub(super) access: Access,
    /// An invalidation has removed the remote rights.
    pub(super) invalidated: bool,
    /// The number of windows that are bound to it.
    pub(super) windows: u32,
}

/// The changes of a re-registration; a field that is `None` stays unchanged (IBTA 1.7, 11.2.8.5).
#[derive(Clone, Debug, Default)]
pub struct Reregister {
    /// The protection domain.
    pub pd: Option<PdId>,
    /// The rights.
    pub access: Option<Access>,
    /// The memory, and the address of its first byte for work requests and peers; `None` stands for
    /// the memory's own address.
    pub memory: Option<(Memory, Option<u64>)>,
}

/// Why a region was not re-registered. It is unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReregisterError {
    /// No region has this key.
    UnknownKey,
    /// Windows are bound to it.
    WindowsBound {
        /// The number of windows.
        windows: u32,
    },
    /// The changed region would not be valid.
    Register(RegisterError),
}

impl core::fmt::Display for ReregisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::UnknownKey => super::DeregisterError::UnknownKey.fmt(f),
            Self::WindowsBound { windows } => {
                super::DeregisterError::WindowsBound { windows }.fmt(f)
            }
            Self::Register(error) => error.fmt(f),
        }
    }
}

impl core::fmt::Debug for ReregisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ReregisterError {}

impl Region {
    /// A region of `memory`, whose first byte has the address `iova` (its own address if that is
    /// `None`).
    fn new(
        pd: PdId,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Self, RegisterError> {
        // rule: 10.6.3-remote-needs-local-write
        if access.intersects(Access::NEED_LOCAL_WRITE) && !access.contains(Access::LOCAL_WRITE) {
            return Err(RegisterError::NeedsLocalWrite);
        }
        // rule: A19-flush-persistent-memory
        if access.contains(Access::FLUSH_PERSISTENT) && memory.durable.is_none() {
            return Err(RegisterError::NotDurable);
        }
        let beyond = match memory.backing {
            Backing::Mapped { .. } => isize::try_from(memory.len).is_err(),
            Backing::Null if !Access::LOCAL_WRITE.contains(access) => {
                return Err(RegisterError::NullIsLocal);
            }
            Backing::OnDemand { .. } | Backing::Null | Backing::Gone => false,
        };
        // rule: 10.6-zero-based
        let iova = iova.unwrap_or(memory.addr);
        // rule: 10.6.2-wraps
        let wraps = |from: u64| from.checked_add(memory.len).is_none();
        if beyond || wraps(memory.addr) || wraps(iova) {
            return Err(RegisterError::Wraps);
        }
        Ok(Self {
            pd,
            memory,
            iova,
            access,
            invalidated: false,
            windows: 0,
        })
    }

    /// What makes its bytes durable, if something can.
    pub(super) fn durable(&self) -> Option<&Arc<dyn Durable>> {
        self.memory.durable.as_ref()
    }

    /// What it grants.
    pub(super) fn extent(&self) -> Extent {
        Extent {
            addr: self.iova,
            len: self.memory.len,
            access: self.access,
        }
    }

    /// The bytes `va .. va + len`, if `pd` may use them for this access.
    #[inline]
    pub(super) fn check(
        &self,
        pd: PdId,
        va: u64,
        len: u64,
        rights: Access,
    ) -> Result<Span<'_>, AccessError> {
        // rule: 9.7.4.1-rkey-pd
        if self.pd != pd {
            cold_path();
            return Err(AccessError::WrongPd);
        }
        // rule: 9.7.4.1-rkey-rights
        if !self.access.contains(rights) {
            cold_path();
            return Err(AccessError::Denied);
        }
        // rule: 10.6.2-iova
        let offset = va.checked_sub(self.iova).ok_or(AccessError::OutOfBounds)?;
        // rule: 9.7.4.1-rkey-bounds
        if offset > self.memory.len || len > self.memory.len - offset {
            cold_path();
            return Err(AccessError::OutOfBounds);
        }
        let (Ok(start), Ok(len)) = (usize::try_from(offset), usize::try_from(len)) else {
            return Err(AccessError::OutOfBounds);
        };
        Ok(match &self.memory.backing {
            // SAFETY: the creator of the memory vouches for its bytes as long as the region is in
            // the table, which the borrow of `self` proves; the range was checked to lie within
            // them.
            Backing::Mapped { base, .. } => unsafe { Span::new(base.wrapping_add(start), len) },
            Backing::OnDemand { from, accessor } => {
                Span::on_demand(&**accessor, from + offset, len)
            }
            Backing::Null => {
                cold_path();
                Span::null(len)
            }
            Backing::Gone => {
                cold_path();
                return Err(AccessError::Fault);
            }
        })
    }
}

impl MemoryTable {
    /// Registers memory, whose first byte has the address `iova` for work requests and peers (its
    /// own address if that is `None`). Returns the key, which is both lkey and rkey.
    ///
    /// # Errors
    /// See [`RegisterError`].
    // rule: 10.6.2-register
    pub fn register_memory(
        &mut self,
        rng: &mut impl Rng,
        pd: PdId,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<u32, RegisterError> {
        if !self.knows(pd) {
            // rule: 10.6.2-pd-known
            return Err(RegisterError::UnknownPd);
        }
        let region = Region::new(pd, memory, iova, access)?;
        let key = loop {
            let key = rng.next_u32();
            let taken = self.regions.contains_key(&key) || self.windows.contains_key(&(key >> 8));
            if key != 0 && !taken {
                break key;
            }
        };
        self.regions.insert(key, region);
        Ok(key)
    }

    /// Makes a region unusable, because its memory is gone: from now on each access fails. Its key
    /// stays taken until it is deregistered. Does nothing if no region has this key.
    pub fn lose_memory(&mut self, key: u32) {
        if let Some(region) = self.regions.get_mut(&key) {
            region.memory.backing = Backing::Gone;
        }
    }

    /// Changes a region between two packets, without changing its key. If its remote rights had
    /// been invalidated, it has those of the new registration.
    ///
    /// # Errors
    /// See [`ReregisterError`].
    // rule: 10.6.2-reregister
    pub fn reregister(&mut self, key: u32, change: Reregister) -> Result<(), ReregisterError> {
        let old = self.regions.get(&key).ok_or(ReregisterError::UnknownKey)?;
        if old.windows > 0 {
            let windows = old.windows;
            // rule: 10.6.2-reregister-windows
            return Err(ReregisterError::WindowsBound { windows });
        }
        let pd = change.pd.unwrap_or(old.pd);
        if !self.knows(pd) {
            return Err(ReregisterError::Register(RegisterError::UnknownPd));
        }
        let access = change.access.unwrap_or(old.access);
        let (memory, iova) = change
            .memory
            .unwrap_or_else(|| (old.memory.clone(), Some(old.iova)));
        let region = Region::new(pd, memory, iova, access).map_err(ReregisterError::Register)?;
        self.regions.insert(key, region);
        Ok(())
    }
}

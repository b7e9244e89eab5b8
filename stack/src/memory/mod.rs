//! Protection domains and memory regions.
//!
//! A region is a raw range of this process's memory that peers may read and write at any time: its
//! bytes are copied (see [`span`]) and never borrowed. [`backing`] has the kinds of memory that a
//! region can consist of. All 32 bits of a region's key are drawn at random, so that peers can't
//! guess it. The same value is its lkey and its rkey; the access rights restrict the remote use.

mod backing;
mod buffer;
mod denied;
mod durable;
mod prefetch;
mod region;
mod shared_copy;
mod span;
#[cfg(test)]
mod tests;
mod window;

pub use backing::{FaultSafe, Memory, MemoryFault};
pub use buffer::{Buffer, BufferRangeError};
pub use denied::{DeniedAccess, Extent};
pub(crate) use durable::Stretch;
pub use durable::{Durable, NotDurable};
pub(crate) use prefetch::prefetch;
pub use region::{Reregister, ReregisterError};
pub use span::Span;
pub use window::{BindError, DeregisterError, MwBind, MwId, MwType};

use crate::hash::KeyMap;
use bitflags::bitflags;
use core::hint::cold_path;
use rand_core::Rng;
use region::Region;
use roce_wire::Qpn;
use std::sync::Arc;
use window::MemoryWindow;

/// The ID of a protection domain of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(pub(crate) u32);

bitflags! {
    // rule: 10.6.3-local-read
    /// The rights of a region (IBTA 1.7, 10.6.3). Local reading is always allowed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Receives and READ responses may be placed in it.
        const LOCAL_WRITE = 1;
        /// Peers may WRITE to it; needs `LOCAL_WRITE`.
        const REMOTE_WRITE = 2;
        /// Peers may READ it.
        const REMOTE_READ = 4;
        /// Peers may execute atomics on it; needs `LOCAL_WRITE`.
        const REMOTE_ATOMIC = 8;
        /// Windows may be bound to it (IBTA 1.7, 10.6.7).
        const MW_BIND = 16;
        /// Peers may FLUSH it to global visibility (IBTA 1.7, Annex A19).
        const FLUSH_GLOBAL = 256;
        /// Peers may FLUSH it to persistence (IBTA 1.7, Annex A19); needs memory that can be made
        /// [`Durable`].
        const FLUSH_PERSISTENT = 512;
        /// A peer's SEND with invalidate may remove its remote rights, as for a fast-registered
        /// region (IBTA 1.7, 10.6.5).
        const REMOTE_INVALIDATE = 1 << 16;
    }
}

impl Access {
    /// All rights that a region can have whatever its memory is: all but [`FLUSH_PERSISTENT`].
    ///
    /// [`FLUSH_PERSISTENT`]: Self::FLUSH_PERSISTENT
    pub const ANY_MEMORY: Self = Self::all().difference(Self::FLUSH_PERSISTENT);

    /// The rights that only peers use, which are those that a window can have.
    pub(crate) const REMOTE: Self = Self::REMOTE_WRITE
        .union(Self::REMOTE_READ)
        .union(Self::REMOTE_ATOMIC)
        .union(Self::FLUSH_GLOBAL)
        .union(Self::FLUSH_PERSISTENT);

    /// The rights that neither a region nor its windows can have without `LOCAL_WRITE` (IBTA 1.7,
    /// 11.2.8.2 and C10-74).
    const NEED_LOCAL_WRITE: Self = Self::REMOTE_WRITE.union(Self::REMOTE_ATOMIC);
}

/// Why an access to memory was denied (IBTA 1.7, 10.6.3).
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessError {
    /// No region and no bound window has the key, or its remote rights were
    /// invalidated.
    BadKey,
    /// The region or window belongs to another protection domain.
    WrongPd,
    /// The window was bound by another QP.
    WrongQp,
    /// The region or window does not have the right.
    Denied,
    /// Windows are bound to the region.
    WindowsBound,
    /// Address or length reach outside of the region or window.
    OutOfBounds,
    /// Nothing is mapped at the address, or the page is protected.
    Fault,
}

impl core::fmt::Display for AccessError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BadKey => "no region and no bound window has this key",
            Self::WrongPd => "the region belongs to another protection domain",
            Self::WrongQp => "the window was bound by another QP",
            Self::Denied => "the region or window was not given this right",
            Self::WindowsBound => "windows are bound to the region: invalidate them first",
            Self::OutOfBounds => "the range reaches beyond the region or window",
            Self::Fault => "nothing is mapped there, or it is protected",
        })
    }
}

impl core::fmt::Debug for AccessError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AccessError {}

/// Why a region was not registered.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// Remote writing or atomics were requested without local writing (IBTA 1.7, 11.2.8.2).
    NeedsLocalWrite,
    /// Address plus length exceeds the address space.
    Wraps,
    /// The protection domain is not one of this NIC.
    UnknownPd,
    /// A null region can have local rights only.
    NullIsLocal,
    /// `FLUSH_PERSISTENT` was requested for memory whose bytes can't be made durable.
    NotDurable,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NeedsLocalWrite => {
                "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE: add it to the access rights"
            }
            Self::Wraps => "address plus length exceeds the address space",
            Self::UnknownPd => "the protection domain does not belong to this device",
            Self::NullIsLocal => "a null region can have no right but LOCAL_WRITE",
            Self::NotDurable => {
                "FLUSH_PERSISTENT needs the memory of a file: register a file, or remove the right"
            }
        })
    }
}

impl core::fmt::Debug for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RegisterError {}

/// All regions of a NIC by key, and all windows.
#[derive(Debug, Default)]
pub struct MemoryTable {
    regions: KeyMap<Region>,
    /// By the upper 24 bits of their keys, which differ from those of all regions' keys.
    windows: KeyMap<MemoryWindow>,
    pds: u32,
}

impl MemoryTable {
    /// Allocates a protection domain.
    pub fn alloc_pd(&mut self) -> PdId {
        self.pds += 1;
        PdId(self.pds)
    }

    /// Whether this is a protection domain of this NIC.
    pub(crate) fn has_pd(&self, pd: PdId) -> bool {
        (1..=self.pds).contains(&pd.0)
    }

    /// Registers a buffer under its own addresses. Returns the key, which is both lkey and rkey.
    /// The region keeps the buffer alive.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register_buffer(
        &mut self,
        rng: &mut impl Rng,
        pd: PdId,
        buffer: Arc<Buffer>,
        access: Access,
    ) -> Result<u32, RegisterError> {
        self.register_memory(rng, pd, Memory::buffer(buffer), None, access)
    }

    /// Registers `len` bytes at `base`; work requests and peers use `iova` as the address of the
    /// first byte. Returns the key, which is both lkey and rkey.
    ///
    /// # Safety
    /// Until [`MemoryTable::deregister`] is called with the key, the bytes must stay mapped,
    /// readable and (with `LOCAL_WRITE`) writable, and the program must not hold a Rust reference
    /// to them that accesses by peers would invalidate.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub unsafe fn register(
        &mut self,
        rng: &mut impl Rng,
        pd: PdId,
        base: *mut u8,
        len: u64,
        iova: u64,
        access: Access,
    ) -> Result<u32, RegisterError> {
        // SAFETY: the caller promises the same.
        let memory = unsafe { Memory::foreign(base, len) };
        self.register_memory(rng, pd, memory, Some(iova), access)
    }

    fn knows(&self, pd: PdId) -> bool {
        (1..=self.pds).contains(&pd.0)
    }

    /// Removes the region with this key, and unbinds its windows. The NIC does not access its bytes
    /// any more. Returns whether a region had this key.
    pub fn deregister(&mut self, key: u32) -> bool {
        if self.regions.get(&key).is_some_and(|r| r.windows > 0) {
            self.unbind_from(key);
        }
        // rule: 9.7.4.1-rkey-gone
        self.regions.remove(&key).is_some()
    }

    /// Removes the region with this key, unless windows are bound to it (IBTA 1.7, 11.2.8.4).
    ///
    /// # Errors
    /// See [`DeregisterError`]; the region is unchanged.
    pub fn deregister_unbound(&mut self, key: u32) -> Result<(), DeregisterError> {
        match self.regions.get(&key).map(|region| region.windows) {
            None => Err(DeregisterError::UnknownKey),
            Some(0) => {
                self.regions.remove(&key);
                Ok(())
            }
            // rule: 10.6.7-window-region-stays
            Some(windows) => Err(DeregisterError::WindowsBound { windows }),
        }
    }

    /// The number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether no region is registered.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The bytes `va .. va + len` of the region with local key `lkey`, if `pd` may use them for
    /// this access.
    ///
    /// # Errors
    /// See [`AccessError`].
    #[inline]
    pub fn local(
        &self,
        pd: PdId,
        lkey: u32,
        va: u64,
        len: u64,
        rights: Access,
    ) -> Result<Span<'_>, AccessError> {
        // rule: 10.6.3-lkey
        let region = self.regions.get(&lkey).ok_or(AccessError::BadKey)?;
        region.check(pd, va, len, rights)
    }

    /// The bytes `va .. va + len` of the region or window with remote key `rkey`, if a request that
    /// arrived through the QP `qpn` may use them for this access.
    ///
    /// # Errors
    /// See [`AccessError`].
    #[inline]
    // rule: 10.2.3-pd-remote, 10.6.2-reregister-under-way
    pub fn remote(
        &self,
        pd: PdId,
        qpn: Qpn,
        rkey: u32,
        va: u64,
        len: u64,
        rights: Access,
    ) -> Result<Span<'_>, AccessError> {
        // rule: 9.7.4.1-rkey
        let Some(region) = self.regions.get(&rkey) else {
            return self.through_window((pd, qpn), rkey, va, len, rights);
        };
        // rule: 9.7.4.1-rkey-invalidated
        if region.invalidated {
            cold_path();
            return Err(AccessError::BadKey);
        }
        region.check(pd, va, len, rights)
    }

    /// Checks that a request through the QP `qpn` may use a remote key with these rights. Checks no
    /// address range.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn remote_key(
        &self,
        pd: PdId,
        qpn: Qpn,
        rkey: u32,
        rights: Access,
    ) -> Result<(), AccessError> {
        let Some(region) = self.regions.get(&rkey) else {
            return self.may_use_window((pd, qpn), rkey, rights).map(drop);
        };
        match region {
            region if region.invalidated => Err(AccessError::BadKey),
            region if region.pd != pd => Err(AccessError::WrongPd),
            region if !region.access.contains(rights) => Err(AccessError::Denied),
            _ => Ok(()),
        }
    }

    /// Removes the remote rights of the region with this key, or unbinds the window of type 2, at
    /// the request of a peer's SEND with invalidate or of a local request (IBTA 1.7, 9.4.1.1.3 and
    /// 10.6.5).
    ///
    /// # Errors
    /// If the key names neither a region of `pd` that allows this and has no bound windows, nor a
    /// window that was bound by the QP `qpn`.
    pub fn invalidate(&mut self, pd: PdId, qpn: Qpn, rkey: u32) -> Result<(), AccessError> {
        self.check_invalidation(pd, qpn, rkey)?;
        self.revoke(rkey);
        Ok(())
    }

    /// Invalidates a key, which [`check_invalidation`](Self::check_invalidation) allowed.
    pub(crate) fn revoke(&mut self, rkey: u32) {
        match self.regions.get_mut(&rkey) {
            // rule: 10.6.5-invalidated
            Some(region) => region.invalidated = true,
            None => self.unbind(rkey >> 8),
        }
    }

    /// What was denied, and what the region or window with this key grants.
    #[cold]
    pub(crate) fn denied(
        &self,
        (key, addr, len): (u32, u64, u64),
        rights: Access,
        error: AccessError,
    ) -> DeniedAccess {
        DeniedAccess {
            error,
            key,
            addr,
            len,
            rights,
            region: self.extent(key),
        }
    }

    /// What the region or window with this key grants.
    fn extent(&self, key: u32) -> Option<Extent> {
        let region = self.regions.get(&key).map(Region::extent);
        region.or_else(|| self.window_extent(key))
    }

    /// Whether [`invalidate`](Self::invalidate) would succeed.
    pub(crate) fn check_invalidation(
        &self,
        pd: PdId,
        qpn: Qpn,
        rkey: u32,
    ) -> Result<(), AccessError> {
        let Some(region) = self.regions.get(&rkey) else {
            return self.check_window_invalidation(pd, qpn, rkey);
        };
        // rule: 9.4.1.1-invalidate-pd
        if region.pd != pd {
            return Err(AccessError::WrongPd);
        }
        if region.windows > 0 {
            return Err(AccessError::WindowsBound);
        }
        // rule: 9.4.1.1-invalidate-permission
        if !region.access.contains(Access::REMOTE_INVALIDATE) || region.invalidated {
            return Err(AccessError::Denied);
        }
        Ok(())
    }
}

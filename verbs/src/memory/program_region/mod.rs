//! Regions of memory that a program maps, and may unmap: the regions of `ibv_reg_mr` and its kin.

mod memory;

pub use memory::{ProgramMemory, ProgramRegionError};

use super::mapped::mapped_memory;
use super::tied::{Tie, Tied, tie_memory};
use super::{Mapping, Registration, page_size};
use crate::pd::ProtectionDomain;
use memory::Backing;
use nix::errno::Errno;
use nix::sys::mman::MapFlags;
use nix::sys::stat::fstat;
use parking_lot::Mutex;
use roce_stack::{Access, DeregisterError};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A region of memory that a program maps, for a library whose callers register memory by its address.
/// If `ROCE_TIE_MEMORY=1` is set, it loses its memory when the program unmaps it.
#[derive(Debug)]
pub struct ProgramRegion {
    /// The L_Key and the R_Key.
    keys: (u32, u32),
    /// `None` once it is closed or deregistered.
    parts: Mutex<Option<Parts>>,
}

#[derive(Debug)]
struct Parts {
    // Dropped before `backing`: the memory must exist as long as the NIC may access it.
    registration: Registration,
    backing: Backing,
    tie: Option<Tie>,
}

/// Changes of a [`ProgramRegion`].
#[derive(Debug, Default)]
pub struct ProgramRegionChange<'a> {
    /// The new protection domain.
    pub pd: Option<&'a ProtectionDomain>,
    /// The new rights.
    pub access: Option<Access>,
    /// The new memory.
    pub memory: Option<ProgramMemory>,
    /// Whether the new memory is on demand. `None` leaves it as it is.
    pub on_demand: Option<bool>,
}

impl ProgramRegion {
    /// Registers memory of the program. Work requests and peers address its first byte as `iova`.
    ///
    /// # Errors
    /// See [`ProgramRegionError`].
    ///
    /// # Safety
    /// As long as the region is registered, no Rust reference to the memory exists, and it stays mapped,
    /// unless it is on demand.
    #[expect(unsafe_code)]
    pub unsafe fn register(
        pd: &ProtectionDomain,
        memory: ProgramMemory,
        on_demand: bool,
        iova: u64,
        access: Access,
    ) -> Result<Arc<Self>, ProgramRegionError> {
        let registered = memory.memory(access, on_demand)?;
        let registration = pd.register_memory(registered, Some(iova), access)?;
        let region = Self::new(registration, memory.backing(on_demand));
        if !on_demand {
            let tie = tie_memory(Arc::<Self>::downgrade(&region), memory.addr, memory.len)?;
            if let Some(parts) = &mut *region.parts.lock() {
                parts.tie = tie;
            }
        }
        Ok(region)
    }

    /// Maps and registers `len` bytes of a descriptor's memory from `offset` on: of a dma-buf, or of
    /// anything that can be mapped like one. As in the kernel, `offset` and `iova` must have the same
    /// offset in their page.
    ///
    /// # Errors
    /// See [`ProgramRegionError`].
    pub fn of_descriptor(
        pd: &ProtectionDomain,
        fd: impl AsFd,
        (offset, len): (u64, usize),
        iova: u64,
        access: Access,
    ) -> Result<Arc<Self>, ProgramRegionError> {
        let page = page_size() as u64;
        let lead = offset % page;
        let size = u64::try_from(fstat(&fd)?.st_size).unwrap_or(0);
        let end = offset.checked_add(len as u64);
        if lead != iova % page || len == 0 || end.is_none_or(|end| end > size) {
            return Err(ProgramRegionError::Range);
        }
        let whole = len.checked_add(lead as usize).and_then(NonZeroUsize::new);
        let whole = whole.ok_or(ProgramRegionError::Range)?;
        let writes = access.contains(Access::LOCAL_WRITE);
        let mapping = Mapping::of(&fd, offset - lead, whole, writes, MapFlags::MAP_SHARED);
        let mapping = mapping.map_err(refused)?;
        let first = mapping.addr() + lead as usize;
        // SAFETY: mapped until the region is gone, and never borrowed.
        #[expect(unsafe_code)]
        let memory = unsafe { mapped_memory(first as *mut u8, len as u64) }?;
        let registration = pd.register_memory(memory, Some(iova), access)?;
        Ok(Self::new(registration, Backing::Mapping(mapping)))
    }

    /// The region of a registration that needs no memory of the program.
    pub fn of_registration(registration: Registration) -> Arc<Self> {
        Self::new(registration, Backing::Registration)
    }

    fn new(registration: Registration, backing: Backing) -> Arc<Self> {
        Arc::new(Self {
            keys: (registration.lkey(), registration.rkey()),
            parts: Mutex::new(Some(Parts {
                registration,
                backing,
                tie: None,
            })),
        })
    }

    /// The L_Key and the R_Key, which no change of the region changes.
    pub fn keys(&self) -> (u32, u32) {
        self.keys
    }

    /// Calls `work` with the registration. Never waits for another thread, so it may be called with the
    /// device locked.
    ///
    /// # Errors
    /// If the region is closed, or another thread is changing it.
    pub fn with<R>(&self, work: impl FnOnce(&Registration) -> R) -> Result<R, ProgramRegionError> {
        let parts = self.parts.try_lock().ok_or(ProgramRegionError::Busy)?;
        let parts = parts.as_ref().ok_or(ProgramRegionError::Closed)?;
        Ok(work(&parts.registration))
    }

    /// Changes the region, after the checks of a registration with the new rights and the new memory.
    ///
    /// # Errors
    /// Those of the registration. The region is then unchanged.
    ///
    /// # Safety
    /// The new memory, if there is one, meets the demands of [`ProgramRegion::register`].
    #[expect(unsafe_code)]
    pub unsafe fn change(
        self: &Arc<Self>,
        change: &ProgramRegionChange<'_>,
    ) -> Result<(), ProgramRegionError> {
        let mut parts = self.parts.lock();
        let parts = parts.as_mut().ok_or(ProgramRegionError::Closed)?;
        let before = parts.registration.access();
        let on_demand = change
            .on_demand
            .unwrap_or(matches!(parts.backing, Backing::OnDemand));
        let memory = match (change.memory, change.access) {
            (Some(to), access) => {
                let memory = to.memory(access.unwrap_or(before), on_demand)?;
                Some((memory, None))
            }
            (None, Some(access)) => {
                // Rights can be taken away whatever has become of the memory.
                if (access - before).contains(Access::LOCAL_WRITE) {
                    parts.backing.allow_writes()?;
                }
                let persistent = access.contains(Access::FLUSH_PERSISTENT);
                let durable = persistent.then(|| parts.backing.durable()).transpose()?;
                durable.map(|memory| (memory, Some(parts.registration.addr())))
            }
            (None, None) => None,
        };
        let tie = match change.memory {
            Some(to) if !on_demand => tie_memory(Arc::<Self>::downgrade(self), to.addr, to.len)?,
            _ => None,
        };
        parts
            .registration
            .reregister(change.pd, change.access, memory)?;
        if let Some(to) = change.memory {
            parts.tie = tie;
            parts.backing = to.backing(on_demand);
        }
        Ok(())
    }

    /// Deregisters the memory, unless windows are bound to it. Does nothing if that has been done.
    ///
    /// # Errors
    /// If windows are bound to it.
    pub fn deregister(&self) -> Result<(), DeregisterError> {
        let mut kept = self.parts.lock();
        let Some(parts) = kept.take() else {
            return Ok(());
        };
        let Parts {
            registration,
            backing,
            tie,
        } = parts;
        registration.deregister().map_err(|(registration, error)| {
            *kept = Some(Parts {
                registration,
                backing,
                tie,
            });
            error
        })
    }

    /// Deregisters the memory even if windows are bound to it.
    pub fn close(&self) {
        self.parts.lock().take();
    }
}

impl Tied for ProgramRegion {
    fn lose_memory(&self) {
        if let Some(parts) = &*self.parts.lock() {
            parts.registration.lose_memory();
        }
    }
}

/// The error for a descriptor that can't be mapped. Exporters refuse with various errors, among them
/// `ENOTSUPP` (524), which the C library does not know.
fn refused(errno: Errno) -> ProgramRegionError {
    match errno {
        Errno::ENOMEM | Errno::EACCES | Errno::EPERM => errno.into(),
        _ => ProgramRegionError::NotMappable,
    }
}

//! Registrations of memory.

use crate::mappings::Mapping;
use crate::prelude::*;
use roce_verbs::Access;
use roce_verbs::memory::{
    Memory, Registration, Tie, Tied, check_mapped, durable_memory, mapped_memory,
};

/// A registration. `ibv_dereg_mr` ends it, and so does closing the context.
pub(crate) struct Region {
    pub(crate) registered: Mutex<Option<Registered>>,
    pub(crate) handle: u32,
}

pub(crate) struct Registered {
    // Dropped before `backing`: the memory must exist as long as the NIC may access it.
    pub(crate) registration: Registration,
    pub(crate) backing: Backing,
    pub(crate) tie: Option<Tie>,
    pub(crate) pd: Use,
    pub(crate) _counted: Use,
}

/// The owner that keeps the memory of a region alive.
pub(crate) enum Backing {
    /// Nothing: there is no memory.
    None,
    /// Nothing: the region is on demand, and its memory may be unmapped at any time.
    OnDemand,
    /// The program, which was told to keep the memory mapped.
    Program {
        addr: usize,
        len: usize,
    },
    Device {
        _memory: Use,
    },
    /// The memory is a dma-buf, mapped by the library.
    DmaBuf {
        mapping: Mapping,
    },
}

impl Backing {
    /// Checks that a region of this memory can have `LOCAL_WRITE`, as its registration would.
    ///
    /// # Errors
    /// Those of the registration.
    pub(crate) fn allow_writes(&self) -> Result<(), Errno> {
        match self {
            Self::Program { addr, len } => {
                check_mapped(*addr, *len, Access::LOCAL_WRITE).or_errno()
            }
            Self::DmaBuf { mapping } => mapping.allow_writes(),
            Self::None | Self::OnDemand | Self::Device { .. } => Ok(()),
        }
    }

    /// The same memory, made durable.
    ///
    /// # Errors
    /// `EINVAL` if that is not possible.
    pub(crate) fn durable(&self) -> Result<Memory, Errno> {
        match self {
            Self::Program { addr, len } => {
                // SAFETY: the region is of this memory already.
                let memory = unsafe { mapped_memory(*addr as *mut u8, *len as u64) };
                durable_memory(memory.or_errno()?).or_errno()
            }
            _ => Err(with_reason(Errno::EINVAL, || {
                "IBV_ACCESS_FLUSH_PERSISTENT needs the memory of a file, registered with ibv_reg_mr"
                    .to_owned()
            })),
        }
    }
}

impl Tied for Region {
    fn lose_memory(&self) {
        if let Some(registered) = &*self.registered.lock() {
            registered.registration.lose_memory();
        }
    }
}

impl Region {
    /// Deregisters the region even if windows are bound to it.
    pub(crate) fn close(&self) {
        self.registered.lock().take();
    }

    /// # Errors
    /// `EBUSY` while windows are bound to it.
    pub(crate) fn deregister(&self) -> Result<(), Errno> {
        let mut registered = self.registered.lock();
        let Some(Registered {
            registration,
            backing,
            tie,
            pd,
            _counted,
        }) = registered.take()
        else {
            return Ok(());
        };
        match registration.deregister() {
            Ok(()) => Ok(()),
            Err((registration, error)) => {
                *registered = Some(Registered {
                    registration,
                    backing,
                    tie,
                    pd,
                    _counted,
                });
                Err(error).or_errno()
            }
        }
    }

    /// Runs a closure on the registration. Never waits for another thread, so it may be called with
    /// the device locked.
    ///
    /// # Errors
    /// `EINVAL` if the context was closed, `EBUSY` if another thread is using the registration.
    pub(crate) fn try_with<R>(
        &self,
        work: impl FnOnce(&Registration) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let registered = self.registered.try_lock().ok_or(Errno::EBUSY)?;
        work(&registered.as_ref().ok_or(Errno::EINVAL)?.registration)
    }

    /// Runs a closure on the region's parts.
    ///
    /// # Errors
    /// `EINVAL` if the context was closed.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut Registered) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        work(self.registered.lock().as_mut().ok_or(Errno::EINVAL)?)
    }
}

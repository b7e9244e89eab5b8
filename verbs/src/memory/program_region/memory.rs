//! The memory of a region that the program maps, and what keeps it alive.

use crate::error::RegionError;
use crate::memory::mapped::{NotMapped, check_mapped, durable_memory, mapped_memory};
use crate::memory::{Mapping, NotPersistent, ProcessMemory};
use nix::errno::Errno;
use roce_stack::{Access, Memory, ReregisterError};
use std::{fmt, io};

/// Memory at an address of the program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramMemory {
    /// The address of the first byte.
    pub addr: usize,
    /// The length in bytes. An on-demand region of `usize::MAX` bytes from address 0 on is that of the
    /// whole address space.
    pub len: usize,
}

impl ProgramMemory {
    /// The memory of a region with these rights.
    pub(super) fn memory(
        self,
        access: Access,
        on_demand: bool,
    ) -> Result<Memory, ProgramRegionError> {
        let memory = match on_demand {
            true => self.on_demand()?,
            false => self.mapped(access)?,
        };
        match access.contains(Access::FLUSH_PERSISTENT) {
            true => Ok(durable_memory(memory)?),
            false => Ok(memory),
        }
    }

    fn mapped(self, access: Access) -> Result<Memory, ProgramRegionError> {
        if self.len == 0 {
            return Err(ProgramRegionError::Empty);
        }
        check_mapped(self.addr, self.len, access)?;
        // SAFETY: the caller of `register` promises to keep the memory mapped as long as the region is
        // registered, and that no Rust reference to it exists.
        #[expect(unsafe_code)]
        let memory = unsafe { mapped_memory(self.addr as *mut u8, self.len as u64) };
        Ok(memory?)
    }

    fn on_demand(self) -> io::Result<Memory> {
        let accessor = ProcessMemory::of_this_process()?;
        let (addr, len) = (self.addr as u64, self.len as u64);
        // SAFETY: as above, but it need not stay mapped.
        #[expect(unsafe_code)]
        let memory = unsafe {
            match (self.addr, self.len) {
                (0, usize::MAX) => Memory::whole_address_space(accessor),
                _ => Memory::on_demand(addr, len, accessor),
            }
        };
        Ok(memory)
    }

    pub(super) fn backing(self, on_demand: bool) -> Backing {
        match on_demand {
            true => Backing::OnDemand,
            false => Backing::Program(self),
        }
    }
}

/// The owner that keeps the memory of a region alive.
#[derive(Debug)]
pub(super) enum Backing {
    /// The registration itself: it is device memory, or there is no memory.
    Registration,
    /// Nothing: the memory may be unmapped at any time.
    OnDemand,
    /// The program, which was told to keep the memory mapped.
    Program(ProgramMemory),
    /// The memory is that of a descriptor, mapped by this crate.
    Mapping(Mapping),
}

impl Backing {
    /// Checks that a region of this memory can have `LOCAL_WRITE`, as its registration would.
    pub(super) fn allow_writes(&self) -> Result<(), ProgramRegionError> {
        match self {
            Self::Program(memory) => {
                Ok(check_mapped(memory.addr, memory.len, Access::LOCAL_WRITE)?)
            }
            Self::Mapping(mapping) => Ok(mapping.allow_writes()?),
            Self::Registration | Self::OnDemand => Ok(()),
        }
    }

    /// The same memory, made durable.
    pub(super) fn durable(&self) -> Result<Memory, ProgramRegionError> {
        let Self::Program(memory) = self else {
            return Err(ProgramRegionError::NotByAddress);
        };
        // SAFETY: the region is of this memory already.
        #[expect(unsafe_code)]
        let memory = unsafe { mapped_memory(memory.addr as *mut u8, memory.len as u64) };
        Ok(durable_memory(memory?)?)
    }
}

/// Why memory of a program was not registered, or its region not changed. The region is then unchanged.
#[non_exhaustive]
pub enum ProgramRegionError {
    /// The memory has no bytes.
    Empty,
    /// The memory is not mapped with the rights that the region needs.
    NotMapped(NotMapped),
    /// The memory can't be flushed to persistence.
    NotPersistent(NotPersistent),
    /// Memory that is not registered by its address can't be flushed to persistence.
    NotByAddress,
    /// A descriptor's memory exceeds its file, or its offset in a page is not that of its address.
    Range,
    /// The processor can't access the memory of a descriptor.
    NotMappable,
    /// The NIC refused the registration.
    Region(RegionError),
    /// The NIC refused the change.
    Reregister(ReregisterError),
    /// The region is closed.
    Closed,
    /// Another thread is changing the region.
    Busy,
    /// A system call failed.
    System(io::Error),
}

impl fmt::Display for ProgramRegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the length is 0, and a region has at least one byte"),
            Self::NotMapped(error) => error.fmt(f),
            Self::NotPersistent(error) => error.fmt(f),
            Self::NotByAddress => f.write_str(
                "IBV_ACCESS_FLUSH_PERSISTENT needs the memory of a file, registered with ibv_reg_mr",
            ),
            Self::Range => f.write_str(
                "the bytes exceed the descriptor's, or their offset in a page is not that of the address",
            ),
            Self::NotMappable => f.write_str(
                "the exporter lets no processor access this buffer, as with a GPU's memory; register \
                 host memory and copy",
            ),
            Self::Region(error) => error.fmt(f),
            Self::Reregister(error) => error.fmt(f),
            Self::Closed => f.write_str("the region is closed: its context was closed"),
            Self::Busy => f.write_str("another thread is changing the region"),
            Self::System(error) => error.fmt(f),
        }
    }
}

debug_as_display!(ProgramRegionError);

impl std::error::Error for ProgramRegionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotMapped(error) => Some(error),
            Self::NotPersistent(error) => Some(error),
            Self::Region(error) => Some(error),
            Self::Reregister(error) => Some(error),
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

from_causes!(ProgramRegionError:
    NotMapped(NotMapped),
    NotPersistent(NotPersistent),
    Region(RegionError),
    Reregister(ReregisterError),
    System(io::Error),
);

impl From<Errno> for ProgramRegionError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

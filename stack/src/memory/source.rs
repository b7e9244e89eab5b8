//! What a region can be made of.

use super::{Buffer, BufferRange};
use std::sync::Arc;

/// Access to an address turned out to be impossible: nothing is mapped there, or not
/// so that it may be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault;

/// Copies to and from addresses of this process at which perhaps nothing is mapped. It
/// must fail then, and not with a signal: a peer chooses when it is called.
///
/// What was copied before a fault stays copied.
pub trait FaultSafe: Send + Sync + core::fmt::Debug {
    /// Fills `out` from `addr` on.
    ///
    /// # Errors
    /// If not all of it can be read.
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault>;

    /// Copies `data` to `addr`.
    ///
    /// # Errors
    /// If not all of it can be written.
    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault>;

    /// Replaces the word at `addr`, a multiple of 8, by what `change` makes of it, if it
    /// makes anything; gives what was there. Of what is done by this call, through
    /// whichever accessor of its kind, one comes after the other.
    ///
    /// # Errors
    /// If the word can't be read or written.
    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault>;
}

/// What a region is to be made of: `len` bytes, which by themselves begin at `addr`.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(super) backing: Backing,
    pub(super) addr: u64,
    pub(super) len: u64,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    /// There, always; the owner, if there is one, keeps them there.
    Mapped {
        base: *mut u8,
        _owner: Option<Arc<Buffer>>,
    },
    /// At that address, perhaps.
    OnDemand {
        from: u64,
        accessor: Arc<dyn FaultSafe>,
    },
    /// Nowhere: they read as zeros, and what is written is forgotten.
    Null,
}

// SAFETY: a note of addresses. Whoever made it of a raw address promised that the bytes
// may be accessed from any thread; a `Buffer` may be, as may a `FaultSafe`.
unsafe impl Send for Backing {}
// SAFETY: as above; nothing is accessed through a shared reference to the note itself.
unsafe impl Sync for Backing {}

impl Memory {
    /// The address of the first byte, by which it is called unless it is registered
    /// with another one.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Length in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "memory of no bytes is nothing special"
    )]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// All of a buffer, which lives at least as long as the region.
    pub fn buffer(buffer: Arc<Buffer>) -> Self {
        Self {
            addr: buffer.addr(),
            len: buffer.len() as u64,
            backing: Backing::Mapped {
                base: buffer.base(),
                _owner: Some(buffer),
            },
        }
    }

    /// A part of a buffer.
    ///
    /// # Errors
    /// If it does not lie in it.
    pub fn part(buffer: Arc<Buffer>, offset: usize, len: usize) -> Result<Self, BufferRange> {
        let base = buffer.check(offset, len)?;
        Ok(Self {
            addr: base as u64,
            len: len as u64,
            backing: Backing::Mapped {
                base,
                _owner: Some(buffer),
            },
        })
    }

    /// `len` bytes at `base`, whoever owns them.
    ///
    /// # Safety
    /// As long as a region is made of them, the bytes must stay mapped, readable and
    /// (if the region has `LOCAL_WRITE`) writable, from any thread, and nobody may hold
    /// a Rust reference to them that accesses allowed by the region would invalidate.
    pub unsafe fn foreign(base: *mut u8, len: u64) -> Self {
        Self {
            addr: base as u64,
            len,
            backing: Backing::Mapped { base, _owner: None },
        }
    }

    /// `len` bytes at `addr`, which need not be mapped now nor stay so: on-demand
    /// paging, explicit. A request that meets a hole fails.
    ///
    /// # Safety
    /// As long as a region is made of them, nobody may hold a Rust reference to
    /// whatever lies at these addresses that accesses allowed by the region would
    /// invalidate.
    pub unsafe fn on_demand(addr: u64, len: u64, accessor: Arc<dyn FaultSafe>) -> Self {
        let from = addr;
        Self {
            addr,
            len,
            backing: Backing::OnDemand { from, accessor },
        }
    }

    /// All addresses: on-demand paging, implicit.
    ///
    /// # Safety
    /// As for [`Memory::on_demand`], for the whole process.
    pub unsafe fn whole_address_space(accessor: Arc<dyn FaultSafe>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::on_demand(0, u64::MAX, accessor) }
    }

    /// No memory at all, for what nobody wants: any address reads as zero, and what is
    /// written is forgotten. Local only.
    pub fn null() -> Self {
        Self {
            addr: 0,
            len: u64::MAX,
            backing: Backing::Null,
        }
    }
}

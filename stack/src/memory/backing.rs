//! The kinds of memory that a region can consist of.

use super::{Buffer, BufferRangeError, Durable};
use roce_wire::icrc::Unsealed;
use std::sync::Arc;

/// An access failed: nothing is mapped at the address, or the mapping does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault;

/// Copies to and from addresses of this process that may be unmapped. For an unmapped address it
/// must return an error and must not raise a signal, since peers decide when it is called.
///
/// Bytes that were copied before a fault stay copied.
pub trait FaultSafe: Send + Sync + core::fmt::Debug {
    /// Fills `out` from `addr` on.
    ///
    /// # Errors
    /// If any of it can't be read.
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault>;

    /// Copies the payload of a packet from `addr`. An accessor that copies by itself may do so with
    /// [`Unsealed::copy_from`], which is faster.
    ///
    /// # Errors
    /// If any of it can't be read. The packet is then not sent.
    fn read_packet(&self, addr: u64, packet: &mut Unsealed<'_>) -> Result<(), MemoryFault> {
        self.read(addr, packet.payload_mut())
    }

    /// Copies `data` to `addr`.
    ///
    /// # Errors
    /// If any of it can't be written.
    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault>;

    /// Replaces the word at `addr`, a multiple of 8, by the result of `change`, unless that is
    /// `None`. Returns the previous value. All calls, through any accessor of the same kind, are
    /// serialized.
    ///
    /// # Errors
    /// If the word can't be read or written.
    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault>;

    /// Whether its regions are on demand: pages that are not there yet can be prefetched. If not,
    /// all pages were there at the registration.
    fn is_on_demand(&self) -> bool {
        true
    }
}

/// The memory of a region: `len` bytes, whose own address is `addr`.
#[derive(Clone, Debug)]
pub struct Memory {
    pub(super) backing: Backing,
    pub(super) addr: u64,
    pub(super) len: u64,
    /// What makes its bytes durable, if something can.
    pub(super) durable: Option<Arc<dyn Durable>>,
}

/// The location of the bytes.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    /// Always mapped; the owner, if there is one, keeps them mapped.
    Mapped {
        base: *mut u8,
        _owner: Option<Arc<Buffer>>,
    },
    /// At this address, but perhaps not mapped.
    OnDemand {
        from: u64,
        accessor: Arc<dyn FaultSafe>,
    },
    /// Nowhere: they read as zeros, and writes have no effect.
    Null,
    /// Nowhere any more: each access fails.
    Gone,
}

// SAFETY: this holds addresses only. The code that created one from a raw address promised that the
// bytes may be accessed from any thread. A `Buffer` and a `FaultSafe` may be accessed from any
// thread.
unsafe impl Send for Backing {}
// SAFETY: as above; nothing is accessed through a shared reference to this value itself.
unsafe impl Sync for Backing {}

impl Memory {
    /// The memory's own address. Work requests and peers use it as the address of the first byte,
    /// unless the registration sets another.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Length in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "memory of no bytes is not special"
    )]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The same memory, whose bytes `durable` makes durable. A region of it can have
    /// [`Access::FLUSH_PERSISTENT`](super::Access::FLUSH_PERSISTENT).
    #[must_use]
    pub fn with_durable(self, durable: Arc<dyn Durable>) -> Self {
        Self {
            durable: Some(durable),
            ..self
        }
    }

    /// The memory of a whole buffer. The region keeps the buffer alive.
    pub fn buffer(buffer: Arc<Buffer>) -> Self {
        Self {
            addr: buffer.addr(),
            len: buffer.len() as u64,
            backing: Backing::Mapped {
                base: buffer.base(),
                _owner: Some(buffer),
            },
            durable: None,
        }
    }

    /// A part of a buffer.
    ///
    /// # Errors
    /// If the part does not lie in the buffer.
    pub fn part(buffer: Arc<Buffer>, offset: usize, len: usize) -> Result<Self, BufferRangeError> {
        let base = buffer.check(offset, len)?;
        Ok(Self {
            addr: base as u64,
            len: len as u64,
            backing: Backing::Mapped {
                base,
                _owner: Some(buffer),
            },
            durable: None,
        })
    }

    /// `len` bytes at `base`, of any owner.
    ///
    /// # Safety
    /// As long as a region consists of them, the bytes must stay mapped, readable and (if the
    /// region has `LOCAL_WRITE`) writable, from any thread. The program must not hold a Rust
    /// reference to them if an access that the region allows would invalidate the reference.
    pub unsafe fn foreign(base: *mut u8, len: u64) -> Self {
        Self {
            addr: base as u64,
            len,
            backing: Backing::Mapped { base, _owner: None },
            durable: None,
        }
    }

    /// `len` bytes at `addr`, which may be unmapped now or later: explicit on-demand paging. A
    /// request that accesses an unmapped page fails.
    ///
    /// # Safety
    /// As long as a region consists of them, the program must not hold a Rust reference to memory
    /// at these addresses that accesses allowed by the region would invalidate.
    pub unsafe fn on_demand(addr: u64, len: u64, accessor: Arc<dyn FaultSafe>) -> Self {
        let from = addr;
        Self {
            addr,
            len,
            backing: Backing::OnDemand { from, accessor },
            durable: None,
        }
    }

    /// All addresses: implicit on-demand paging.
    ///
    /// # Safety
    /// As for [`Memory::on_demand`], for the whole process.
    pub unsafe fn whole_address_space(accessor: Arc<dyn FaultSafe>) -> Self {
        // SAFETY: the caller promises the same.
        unsafe { Self::on_demand(0, u64::MAX, accessor) }
    }

    /// No memory, for data that is not needed: every address reads as zero, and writes have no
    /// effect. A region of it can have local rights only.
    pub fn null() -> Self {
        Self {
            addr: 0,
            len: u64::MAX,
            backing: Backing::Null,
            durable: None,
        }
    }
}

//! Copies to and from registered memory: the only place that dereferences it.
//!
//! Registered memory is shared with the application and with every peer. The library never makes a
//! Rust reference to it; it copies bytes with raw pointers. Races between a peer's access and the
//! application's yield old, new or mixed bytes, as they do with a hardware RNIC.

use super::{AccessError, FaultSafe};
use core::hint::cold_path;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use roce_wire::icrc::Unsealed;

/// A checked stretch of a registered region, valid as long as its table is not changed.
#[derive(Debug)]
pub struct Span<'t> {
    location: Location<'t>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Location<'t> {
    Mapped(*mut u8),
    OnDemand {
        accessor: &'t dyn FaultSafe,
        addr: u64,
    },
    Null,
}

impl<'t> Span<'t> {
    /// # Safety
    /// `len` bytes at `ptr` must be mapped, and readable and writable as the region's rights allow,
    /// for the span's lifetime.
    pub(super) unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        let location = Location::Mapped(ptr);
        Self { location, len }
    }

    /// Bytes at an address that may be unmapped.
    pub(super) fn on_demand(accessor: &'t dyn FaultSafe, addr: u64, len: usize) -> Self {
        let location = Location::OnDemand { accessor, addr };
        Self { location, len }
    }

    /// Bytes of a null region.
    pub(super) fn null(len: usize) -> Self {
        let location = Location::Null;
        Self { location, len }
    }

    /// Length in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a span of no bytes is not special"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of the bytes, if their region is on demand.
    pub fn on_demand_address(&self) -> Option<u64> {
        match self.location {
            Location::OnDemand { accessor, addr } => accessor.is_on_demand().then_some(addr),
            Location::Mapped(_) | Location::Null => None,
        }
    }

    /// The first `len` bytes of the span, or all of it if it is shorter.
    #[must_use]
    pub fn prefix(self, len: usize) -> Self {
        Self {
            len: self.len.min(len),
            ..self
        }
    }

    /// Splits off the first `len` bytes of the span, or all of it if it is shorter.
    pub(crate) fn take_front(&mut self, len: usize) -> Self {
        let (location, len) = (self.location, self.len.min(len));
        self.location = match location {
            // SAFETY: `ptr` is good for at least `len` bytes by `new`'s contract.
            Location::Mapped(ptr) => Location::Mapped(unsafe { ptr.add(len) }),
            Location::OnDemand { accessor, addr } => Location::OnDemand {
                accessor,
                addr: addr.wrapping_add(len as u64),
            },
            Location::Null => Location::Null,
        };
        self.len -= len;
        Self { location, len }
    }

    /// Copies the span into `out`, which must have the same length. If the lengths differ, copies
    /// the shorter one (and panics in debug builds).
    ///
    /// # Errors
    /// If the memory may be unmapped, and is, or is protected.
    #[inline]
    pub fn read(&self, out: &mut [u8]) -> Result<(), AccessError> {
        debug_assert_eq!(out.len(), self.len);
        let len = out.len().min(self.len);
        let ptr = match self.location {
            Location::Mapped(ptr) => ptr,
            // rule: 10.6-on-demand
            Location::OnDemand { accessor, addr } => {
                let done = accessor.read(addr, &mut out[..len]);
                return done.map_err(|_| AccessError::Fault);
            }
            // rule: 10.6-null
            Location::Null => {
                cold_path();
                out[..len].fill(0);
                return Ok(());
            }
        };
        // SAFETY: `ptr` is good for `self.len` bytes by `new`'s contract and `out`
        // for its own length. They can't overlap in a way that matters: `out` is a
        // port's buffer, borrowed uniquely.
        unsafe { core::ptr::copy_nonoverlapping(ptr, out.as_mut_ptr(), len) };
        Ok(())
    }

    /// Copies the span into the payload of a packet, which must have the same length.
    ///
    /// # Errors
    /// As [`Span::read`].
    #[inline(always)]
    pub(crate) fn read_into(&self, packet: &mut Unsealed<'_>) -> Result<(), AccessError> {
        match self.location {
            Location::Mapped(ptr) if packet.payload_len() == self.len => {
                // SAFETY: `ptr` is good for `self.len` bytes by `new`'s contract. The packet is in
                // a port's buffer, borrowed uniquely, which is no registered memory.
                unsafe { packet.copy_from(ptr) };
                Ok(())
            }
            Location::OnDemand { accessor, addr } if packet.payload_len() == self.len => {
                let done = accessor.read_packet(addr, packet);
                done.map_err(|_| AccessError::Fault)
            }
            _ => self.read(packet.payload_mut()),
        }
    }

    /// Copies `data` into the span, which must have the same length. If the lengths differ, copies
    /// the shorter one (and panics in debug builds). The last byte is written last, after all
    /// others are visible: programs poll it.
    ///
    /// # Errors
    /// If the memory may be unmapped, and is, or is protected.
    #[inline]
    pub fn write(&self, data: &[u8]) -> Result<(), AccessError> {
        debug_assert_eq!(data.len(), self.len);
        let len = data.len().min(self.len);
        let ptr = match self.location {
            Location::Mapped(ptr) => ptr,
            Location::OnDemand { accessor, addr } => {
                let done = accessor.write(addr, &data[..len]);
                return done.map_err(|_| AccessError::Fault);
            }
            Location::Null => return Ok(()),
        };
        let Some((&last, head)) = data[..len].split_last() else {
            return Ok(());
        };
        // SAFETY: as in `read`, with the roles exchanged; `len - 1` is within both. An `AtomicU8`
        // needs no alignment.
        unsafe {
            core::ptr::copy_nonoverlapping(head.as_ptr(), ptr, head.len());
            AtomicU8::from_ptr(ptr.add(head.len())).store(last, Ordering::Release);
        }
        Ok(())
    }

    /// The 8 bytes of the span as an atomic; `None` if the span is not 8 bytes long, not aligned to
    /// 8, or may be unmapped at any time.
    #[inline]
    // rule: 9.4.5-atomic-among-qps
    fn as_atomic(&self) -> Option<&AtomicU64> {
        let Location::Mapped(ptr) = self.location else {
            return None;
        };
        let ptr = ptr.cast::<u64>();
        if self.len != 8 || !ptr.is_aligned() {
            return None;
        }
        // SAFETY: the pointer is aligned and good for 8 bytes by `new`'s contract. An `AtomicU64`
        // may be shared with any other code that accesses the bytes.
        Some(unsafe { AtomicU64::from_ptr(ptr) })
    }

    /// Atomic access to 8 aligned bytes that may be unmapped at any time. Accesses through this
    /// table, or another with such an accessor, are serialized (`IBV_ATOMIC_HCA`); the
    /// application's own atomics are not.
    // rule: 10.6-on-demand-atomics
    fn update(&self, change: &dyn Fn(u64) -> Option<u64>) -> Option<u64> {
        match self.location {
            Location::OnDemand { accessor, addr } if self.len == 8 && addr % 8 == 0 => {
                accessor.update(addr, change).ok()
            }
            _ => None,
        }
    }

    /// Atomically replaces the 8 bytes with `swap` if they equal `compare`; returns the previous
    /// value. `None` if the span is not 8 aligned bytes, or is not mapped.
    // rule: 9.4.5-compare-swap
    pub fn compare_swap(&self, compare: u64, swap: u64) -> Option<u64> {
        if let Location::OnDemand { .. } = self.location {
            return self.update(&|found| (found == compare).then_some(swap));
        }
        let cell = self.as_atomic()?;
        let done = cell.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
        Some(done.unwrap_or_else(|found| found))
    }

    /// Atomically replaces the 8 bytes. `None` if the span is not 8 aligned bytes, or is not mapped.
    pub fn store(&self, word: u64) -> Option<()> {
        if let Location::OnDemand { .. } = self.location {
            return self.update(&|_| Some(word)).map(drop);
        }
        self.as_atomic()?.store(word, Ordering::Release);
        Some(())
    }

    /// Atomically adds to the 8 bytes; returns the previous value. `None` if the span is not 8
    /// aligned bytes, or is not mapped.
    // rule: 9.4.5-fetch-add
    pub fn fetch_add(&self, add: u64) -> Option<u64> {
        if let Location::OnDemand { .. } = self.location {
            return self.update(&|found| Some(found.wrapping_add(add)));
        }
        Some(self.as_atomic()?.fetch_add(add, Ordering::AcqRel))
    }
}

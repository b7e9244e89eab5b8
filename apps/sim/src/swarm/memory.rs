//! Regions with canaries around them, at addresses that are the same in every run.

use super::pages::Pages;
use crate::oracle::{Area, Bytes, Violation, about};
use roce_stack::{Access, Buffer, Memory, Nic, PdId, RemoteAddr, Sge};
use std::sync::Arc;

/// Bytes before and after a region that must not be accessed.
const CANARY: usize = 64;

/// The distance of a region's second address from its first; no region is as long.
const SHIFT: u64 = 1 << 31;

/// The initial byte of all memory, including canaries.
const FILL: u8 = 0xc5;

/// The rights of a new region.
pub(super) const REGION_ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::MW_BIND)
    .union(Access::REMOTE_INVALIDATE);

/// A registered stretch of memory.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) buffer: Arc<Buffer>,
    pub(super) key: u32,
    pub(super) len: usize,
    iova: u64,
    /// Its pages, if it is on demand.
    pages: Option<Arc<Pages>>,
}

impl Region {
    /// A region of `len` bytes; `number` determines the address.
    pub(super) fn new(
        nic: &mut Nic,
        pd: PdId,
        number: usize,
        len: usize,
        on_demand: bool,
    ) -> Result<Self, Violation> {
        Self::make(nic, pd, number, new_buffer(len)?, on_demand)
    }

    /// Registers a buffer from [`Region::new`] again.
    pub(super) fn register(
        nic: &mut Nic,
        pd: PdId,
        number: usize,
        buffer: Arc<Buffer>,
    ) -> Result<Self, Violation> {
        Self::make(nic, pd, number, buffer, false)
    }

    fn make(
        nic: &mut Nic,
        pd: PdId,
        number: usize,
        buffer: Arc<Buffer>,
        on_demand: bool,
    ) -> Result<Self, Violation> {
        let iova = (number as u64 + 1) << 32 | 0x1000;
        let len = buffer.len() - 2 * CANARY;
        let pages = on_demand.then(|| Pages::new(Arc::clone(&buffer), CANARY, len));
        let memory = match &pages {
            Some(pages) => pages.memory(),
            None => part(&buffer, len)?,
        };
        let key = nic
            .register_memory(pd, memory, Some(iova), REGION_ACCESS)
            .map_err(about("registering a region"))?;
        Ok(Self {
            buffer,
            key,
            len,
            iova,
            pages,
        })
    }

    /// The same region, with other memory, and with another address if `shift`.
    pub(super) fn moved(&self, shift: bool) -> Result<(Self, Memory), Violation> {
        let buffer = new_buffer(self.len)?;
        let memory = part(&buffer, self.len)?;
        let moved = Self {
            buffer,
            iova: self.iova + if shift { SHIFT } else { 0 },
            pages: None,
            ..*self
        };
        Ok((moved, memory))
    }

    /// The address of its first byte.
    pub(super) fn iova(&self) -> u64 {
        self.iova
    }

    /// Unmaps its pages, if it is on demand. Returns whether they were mapped.
    pub(super) fn unmap(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.unmap())
    }

    /// Whether its memory can be accessed.
    pub(super) fn is_mapped(&self) -> bool {
        self.pages.as_ref().is_none_or(|pages| pages.is_mapped())
    }

    /// The oracle's model of it.
    pub(super) fn area(&self) -> Area {
        Area::new(Arc::clone(&self.buffer))
    }

    /// The position of byte `at` of the region in its buffer.
    pub(super) fn buffer_offset(at: usize) -> usize {
        CANARY + at
    }

    /// The remote address of byte `at`.
    pub(super) fn remote(&self, at: usize) -> RemoteAddr {
        RemoteAddr {
            addr: self.iova + at as u64,
            rkey: self.key,
        }
    }

    /// `len` bytes starting at `at`, as a list of at most `elements` elements.
    pub(super) fn sges(&self, at: usize, len: usize, elements: usize, key: u32) -> Vec<Sge> {
        let elements = elements.max(1);
        let step = (len / elements).max(1);
        let mut sges = Vec::with_capacity(elements);
        let mut from = 0;
        for element in 1..=elements {
            let to = match element == elements {
                true => len,
                false => (from + step).min(len),
            };
            sges.push(Sge {
                addr: self.iova + (at + from) as u64,
                length: (to - from) as u32,
                lkey: key,
            });
            from = to;
        }
        sges
    }
}

/// A buffer for a region of `len` bytes, with canaries.
fn new_buffer(len: usize) -> Result<Arc<Buffer>, Violation> {
    let failed = |what: String| Violation(format!("making a region: {what}"));
    let buffer = Buffer::new(len + 2 * CANARY).map_err(|e| failed(e.to_string()))?;
    let fill = vec![FILL; buffer.len()];
    buffer.write(0, &fill).map_err(|e| failed(e.to_string()))?;
    Ok(Arc::new(buffer))
}

/// The memory between the canaries of a buffer.
fn part(buffer: &Arc<Buffer>, len: usize) -> Result<Memory, Violation> {
    Memory::part(Arc::clone(buffer), CANARY, len).map_err(about("making a region"))
}

/// `len` bytes that identify their origin.
pub(super) fn pattern(salt: u64, len: usize) -> Bytes {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

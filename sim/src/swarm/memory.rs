//! Regions with canaries around them, at addresses that are the same in every run.

use crate::oracle::{Area, Bytes, Violation};
use roce_stack::{Access, Buffer, Memory, Nic, PdId, RemoteAddr, Sge};
use std::sync::Arc;

/// Bytes before and after a region that must not be accessed.
const CANARY: usize = 64;

/// The initial byte of all memory, including canaries.
const FILL: u8 = 0xc5;

/// A registered stretch of memory.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) buffer: Arc<Buffer>,
    pub(super) key: u32,
    pub(super) len: usize,
    iova: u64,
}

impl Region {
    /// A region of `len` bytes; `number` determines the address.
    pub(super) fn new(
        nic: &mut Nic,
        pd: PdId,
        number: usize,
        len: usize,
    ) -> Result<Self, Violation> {
        let failed = |what: String| Violation(format!("making a region: {what}"));
        let buffer = Buffer::new(len + 2 * CANARY).map_err(|e| failed(e.to_string()))?;
        let fill = vec![FILL; buffer.len()];
        buffer.write(0, &fill).map_err(|e| failed(e.to_string()))?;
        let buffer = Arc::new(buffer);
        Self::register(nic, pd, number, buffer)
    }

    /// Registers a buffer from [`Region::new`] again.
    pub(super) fn register(
        nic: &mut Nic,
        pd: PdId,
        number: usize,
        buffer: Arc<Buffer>,
    ) -> Result<Self, Violation> {
        let iova = (number as u64 + 1) << 32 | 0x1000;
        let len = buffer.len() - 2 * CANARY;
        let memory = Memory::part(buffer.clone(), CANARY, len)
            .map_err(|e| Violation(format!("making a region: {e}")))?;
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC
            | Access::FLUSH_GLOBAL
            | Access::MW_BIND
            | Access::REMOTE_INVALIDATE;
        let key = nic
            .register_memory(pd, memory, Some(iova), all)
            .map_err(|e| Violation(format!("registering a region: {e}")))?;
        Ok(Self {
            buffer,
            key,
            len,
            iova,
        })
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

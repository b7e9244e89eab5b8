//! Regions with canaries around them, at addresses that are the same in each run.

use crate::oracle::{Area, Bytes, Violation};
use roce_stack::{Access, Buffer, Memory, Nic, PdId, RemoteAddr, Sge};
use std::sync::Arc;

/// Bytes before and behind a region that nobody may touch.
const CANARY: usize = 64;

/// The byte that canaries, and all else at the beginning, consist of.
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
    /// `len` bytes; `number` decides on the address.
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

    /// A buffer like one of [`Region::new`], registered again.
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

    /// The oracle's view of it.
    pub(super) fn area(&self) -> Area {
        Area::new(Arc::clone(&self.buffer))
    }

    /// Where byte `at` of the region is in its buffer.
    pub(super) fn place(at: usize) -> usize {
        CANARY + at
    }

    /// By what peers call byte `at`.
    pub(super) fn remote(&self, at: usize) -> RemoteAddr {
        RemoteAddr {
            addr: self.iova + at as u64,
            rkey: self.key,
        }
    }

    /// `len` bytes from `at` on as a list of at most `elements` elements.
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

/// `len` bytes that tell where they come from.
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

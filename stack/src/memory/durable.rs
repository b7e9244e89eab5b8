//! Memory whose bytes can be made durable, such as a mapped file.

use super::{Access, AccessError, MemoryTable, PdId};
use roce_wire::Qpn;
use std::sync::Arc;

/// Memory whose bytes can be made durable: a loss of power, or the end of the process, no longer
/// loses them.
pub trait Durable: Send + Sync + core::fmt::Debug {
    /// Whether [`Durable::persist`] of `len` bytes may take long, for example because it waits for a
    /// device. The NIC then does not call it, and leaves it to its driver as a
    /// [`Persist`](crate::Persist).
    fn blocks(&self, len: u64) -> bool;

    /// Makes the bytes `offset .. offset + len` durable, counted from the first byte of the memory.
    /// Everything that was written there before the call is durable when it returns.
    ///
    /// # Errors
    /// If any of the bytes may not be durable. Later calls for the same bytes must fail, too: the
    /// operating system may have dropped what it failed to write, and reports that only once.
    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable>;
}

/// Bytes were not made durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotDurable;

impl core::fmt::Display for NotDurable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the bytes could not be made durable")
    }
}

impl core::fmt::Debug for NotDurable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for NotDurable {}

/// A checked part of durable memory.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) durable: Arc<dyn Durable>,
    /// The first byte, counted from that of the memory.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl MemoryTable {
    /// The part of durable memory that a FLUSH through the QP `qpn` names: a range of the region or
    /// window with remote key `rkey`, given as address and length, or all of it.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub(crate) fn stretch(
        &self,
        (pd, qpn): (PdId, Qpn),
        rkey: u32,
        range: Option<(u64, u64)>,
        rights: Access,
    ) -> Result<Stretch, AccessError> {
        let all = || self.extent(rkey).ok_or(AccessError::BadKey);
        let (va, len) = match range {
            Some(range) => range,
            None => all().map(|extent| (extent.addr, extent.len))?,
        };
        self.remote(pd, qpn, rkey, va, len, rights)?;
        let (key, va) = self.behind_window(rkey, va).unwrap_or((rkey, va));
        let region = self.regions.get(&key).ok_or(AccessError::BadKey)?;
        let durable = region.durable().ok_or(AccessError::Denied)?;
        Ok(Stretch {
            durable: Arc::clone(durable),
            offset: va.wrapping_sub(region.extent().addr),
            len,
        })
    }
}

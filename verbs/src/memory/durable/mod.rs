//! Memory of mapped files, whose bytes can be made durable.
//!
//! - The memory of an ordinary file becomes durable by `msync`, which waits for the device.
//! - Memory of persistent memory (DAX), mapped with `MAP_SYNC`, becomes durable when its cache lines
//!   are written back.

mod alias;
mod file_system;
pub(super) mod mappings;
mod unfit;

pub use unfit::NotPersistent;

use super::guarded_memory;
use alias::Alias;
use mappings::Keeper;
use nix::sys::mman::{MsFlags, msync};
use roce_stack::{Durable, NotDurable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest range of cache lines that is written back at once, in bytes. It takes some
/// microseconds.
const LONGEST_WRITE_BACK: u64 = 256 << 10;

/// The mapped files that stand behind some addresses of this process.
///
/// It has mappings of its own, so the bytes become durable even if the program unmaps them
/// meanwhile, or closes the file.
#[derive(Debug)]
pub struct DurableFiles {
    /// In the order of their addresses, without a gap.
    parts: Vec<Part>,
    /// Something could not be made durable. The kernel may have dropped what it failed to write, and
    /// reports that once.
    broken: AtomicBool,
}

#[derive(Debug)]
struct Part {
    /// The first byte, counted from that of the memory.
    offset: u64,
    len: u64,
    alias: Alias,
    keeper: Keeper,
}

impl DurableFiles {
    /// Finds the files behind the addresses `addr .. addr + len`.
    ///
    /// # Errors
    /// If no file stands behind some of them, or one that does not survive a loss of power, or if
    /// the mapping is private.
    pub fn behind(addr: u64, len: u64) -> Result<Arc<Self>, NotPersistent> {
        let mut parts = Vec::new();
        for found in mappings::files_behind(addr, len)? {
            parts.push(Part {
                offset: found.range.start - addr,
                len: found.range.end - found.range.start,
                alias: Alias::of(&found.range)?,
                keeper: found.keeper,
            });
        }
        Ok(Arc::new(Self {
            parts,
            broken: AtomicBool::new(false),
        }))
    }
}

impl Durable for DurableFiles {
    fn blocks(&self, len: u64) -> bool {
        let is_file = |part: &Part| part.keeper == Keeper::File;
        len > LONGEST_WRITE_BACK || self.parts.iter().any(is_file)
    }

    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable> {
        if self.broken.load(Ordering::Acquire) {
            return Err(NotDurable);
        }
        let end = offset.saturating_add(len);
        let done = self.parts.iter().try_for_each(|part| {
            let from = offset.max(part.offset);
            let to = end.min(part.offset + part.len);
            match from < to {
                true => part.persist(from - part.offset, to - from),
                false => Ok(()),
            }
        });
        if done.is_err() {
            self.broken.store(true, Ordering::Release);
        }
        done
    }
}

impl Part {
    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable> {
        if self.keeper == Keeper::CacheLines {
            let first = self.alias.first_byte() as u64 + offset;
            return guarded_memory::write_back(first, len).map_err(|_| NotDurable);
        }
        let (first, len) = self.alias.pages(offset, len);
        // SAFETY: the pages are those of the alias, which stays mapped as long as `self`. Their
        // contents do not change.
        #[expect(unsafe_code)]
        let written = unsafe { msync(first, len, MsFlags::MS_SYNC) };
        written.map_err(|_| NotDurable)
    }
}

#[cfg(test)]
mod tests;

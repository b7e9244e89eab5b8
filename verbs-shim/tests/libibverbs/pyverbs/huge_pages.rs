//! Huge pages for the tests that need them, while they run.

use std::fs;
use std::io;

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

/// The number of pages to add. The tests that need the most map one at each of two ends.
const PAGES: u64 = 4;

/// Reserved pages, released when this value is dropped.
pub(super) struct HugePages {
    before: u64,
}

fn reserved() -> io::Result<u64> {
    let text = fs::read_to_string(RESERVED)?;
    text.trim().parse().map_err(io::Error::other)
}

impl HugePages {
    /// Reserves pages. If the machine has none, or this user may not reserve any, reports that and
    /// returns `None`.
    ///
    /// # Panics
    /// In that case, if `ROCE_LAB` is `require`.
    pub(super) fn reserve_or_skip() -> Option<Self> {
        let pages = Self::reserve().ok().flatten();
        if pages.is_none() {
            testkit::skip("huge pages", "this user can't reserve any on this machine");
        }
        pages
    }

    fn reserve() -> io::Result<Option<Self>> {
        let before = reserved()?;
        let wanted = before + PAGES;
        fs::write(RESERVED, wanted.to_string())?;
        let pages = Self { before };
        if reserved()? < wanted {
            // Compaction makes contiguous memory out of fragments.
            fs::write("/proc/sys/vm/compact_memory", "1")?;
            fs::write(RESERVED, wanted.to_string())?;
        }
        Ok((reserved()? >= wanted).then_some(pages))
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // A destructor can do nothing about an error.
        let _ = fs::write(RESERVED, self.before.to_string());
    }
}

//! Huge pages, which some tests take, for as long as they run.

use std::fs;
use std::io;

use roce_tests::programs::say_skipped;

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

/// How many more: those that take most map one at each of two ends.
const PAGES: u64 = 4;

/// Reserved pages, given back with this value.
pub(super) struct HugePages {
    before: u64,
}

fn reserved() -> io::Result<u64> {
    let text = fs::read_to_string(RESERVED)?;
    text.trim().parse().map_err(io::Error::other)
}

impl HugePages {
    /// Reserves pages. Reports it if the machine has none, or does not allow this user any.
    ///
    /// # Panics
    /// Then, if `ROCE_LAB` is `require`.
    pub(super) fn reserve_or_skip() -> Option<Self> {
        let pages = Self::reserve().ok().flatten();
        if pages.is_none() {
            say_skipped("huge pages, of which this machine gives none to this user, in part");
        }
        pages
    }

    fn reserve() -> io::Result<Option<Self>> {
        let before = reserved()?;
        let wanted = before + PAGES;
        fs::write(RESERVED, wanted.to_string())?;
        let pages = Self { before };
        if reserved()? < wanted {
            // Memory is in pieces, some of which can be put together.
            fs::write("/proc/sys/vm/compact_memory", "1")?;
            fs::write(RESERVED, wanted.to_string())?;
        }
        Ok((reserved()? >= wanted).then_some(pages))
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Not more than it was told can be done about an error.
        let _ = fs::write(RESERVED, self.before.to_string());
    }
}

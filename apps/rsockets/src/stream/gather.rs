//! The slices that a call sends.

use roce_verbs::MemoryRegion;
use std::io::IoSlice;
use std::ops::Range;

/// A cursor over slices.
pub(crate) struct Gather<'a> {
    slices: &'a [IoSlice<'a>],
    /// Taken bytes of the first slice.
    taken: usize,
    left: usize,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(slices: &'a [IoSlice<'a>]) -> Self {
        Self {
            slices,
            taken: 0,
            left: slices.iter().map(|slice| slice.len()).sum(),
        }
    }

    /// The number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Discards the rest.
    pub(crate) fn discard_rest(&mut self) {
        self.left = 0;
    }

    /// Takes the next `len` bytes, slice by slice.
    fn take(&mut self, len: usize, mut each: impl FnMut(&[u8])) {
        let mut wanted = len.min(self.left);
        self.left -= wanted;
        while wanted > 0 {
            let Some((first, others)) = self.slices.split_first() else {
                return;
            };
            let rest = &first[self.taken..];
            let now = rest.len().min(wanted);
            each(&rest[..now]);
            wanted -= now;
            self.taken += now;
            if self.taken == first.len() {
                (self.slices, self.taken) = (others, 0);
            }
        }
    }

    /// Fills `out` with the next bytes.
    pub(crate) fn copy_to(&mut self, out: &mut [u8]) {
        let mut at = 0;
        self.take(out.len(), |part| {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        });
    }

    /// Fills a stretch of a region with the next bytes.
    pub(crate) fn copy_to_region(&mut self, region: &MemoryRegion, stretch: Range<usize>) {
        let mut at = stretch.start;
        self.take(stretch.len(), |part| {
            // Cannot fail: the stretch lies in the region.
            let _ = region.write(at, part);
            at += part.len();
        });
    }
}

//! Memory that the kernel may keep reading after a system call.

use std::io;
use std::ptr::NonNull;

/// Length of a block in bytes. A block fits the longest datagram, and its 16 pages fit into a pipe
/// of the default size.
pub(crate) const BLOCK_BYTES: usize = 1 << 16;

/// Linux's `MADV_DONTNEED_LOCKED`, which the libc crate lacks. It is `MADV_DONTNEED` for memory
/// that the program has locked (`mlockall`). Since Linux 5.18.
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// Anonymous memory, divided into blocks of [`BLOCK_BYTES`] that begin on page boundaries. A page
/// takes no memory until it is written.
pub(crate) struct Blocks {
    start: NonNull<u8>,
    count: usize,
}

// SAFETY: the memory belongs to the value alone, and is reached only through its methods, which
// borrow it as a slice would be borrowed.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Maps `count` blocks, in huge pages if the system has any.
    ///
    /// # Errors
    /// If the system has no memory for them.
    pub(crate) fn map(count: usize) -> io::Result<Self> {
        let bytes = count * BLOCK_BYTES;
        // SAFETY: an anonymous mapping at an address that the kernel chooses takes no memory that
        // is in use.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.max(BLOCK_BYTES),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Huge pages save the kernel look-ups. They are not required.
        //
        // SAFETY: the range was mapped just now, and the advice changes no contents.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, count })
    }

    /// The bytes of a block.
    ///
    /// # Panics
    /// If there are not more than `block` blocks.
    pub(crate) fn bytes(&self, block: usize) -> &[u8] {
        let at = self.offset(block);
        // SAFETY: `offset` has checked that the block lies in the mapping, which lives as long as
        // `self`. The kernel only reads it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), BLOCK_BYTES) }
    }

    /// The bytes of a block, for writing.
    ///
    /// # Panics
    /// If there are not more than `block` blocks.
    pub(crate) fn bytes_mut(&mut self, block: usize) -> &mut [u8] {
        let at = self.offset(block);
        // SAFETY: as in `bytes`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), BLOCK_BYTES) }
    }

    /// Replaces the pages of a block with new pages, full of zeros. Readers that still refer to the
    /// old pages keep them, with their contents.
    ///
    /// # Panics
    /// If there are not more than `block` blocks.
    ///
    /// # Errors
    /// If the kernel refuses. The block then keeps its old pages.
    pub(crate) fn renew(&mut self, block: usize) -> io::Result<()> {
        let at = self.offset(block);
        // SAFETY: the range is part of an anonymous mapping that `self` owns and that nobody has
        // borrowed. Afterwards, it reads as zeros, which is valid for bytes.
        let renewed =
            [libc::MADV_DONTNEED, MADV_DONTNEED_LOCKED]
                .into_iter()
                .any(|advice| unsafe {
                    let start = self.start.as_ptr().add(at);
                    libc::madvise(start.cast(), BLOCK_BYTES, advice) == 0
                });
        if renewed {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn offset(&self, block: usize) -> usize {
        assert!(block < self.count, "block {block} of {}", self.count);
        block * BLOCK_BYTES
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, which has this length, and nothing can use it any more.
        // The kernel keeps pages that it still reads.
        unsafe {
            libc::munmap(
                self.start.as_ptr().cast(),
                (self.count * BLOCK_BYTES).max(BLOCK_BYTES),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_begin_on_pages() {
        let mut blocks = Blocks::map(3).expect("memory");
        for block in 0..3 {
            assert_eq!(blocks.bytes(block).len(), BLOCK_BYTES);
            assert_eq!(blocks.bytes(block).as_ptr().addr() % 4096, 0);
            blocks.bytes_mut(block).fill(block as u8 + 1);
        }
        for block in 0..3 {
            assert!(blocks.bytes(block).iter().all(|&b| b == block as u8 + 1));
        }
    }

    #[test]
    fn a_renewed_block_is_zero_and_its_neighbours_are_as_before() {
        let mut blocks = Blocks::map(3).expect("memory");
        for block in 0..3 {
            blocks.bytes_mut(block).fill(7);
        }
        blocks.renew(1).expect("renewed");
        assert!(blocks.bytes(1).iter().all(|&byte| byte == 0));
        assert!(blocks.bytes(0).iter().all(|&byte| byte == 7));
        assert!(blocks.bytes(2).iter().all(|&byte| byte == 7));
    }

    #[test]
    #[should_panic(expected = "block 3 of 3")]
    fn no_block_beyond_the_last() {
        let _ = Blocks::map(3).expect("memory").bytes(3);
    }
}

//! Copies of bytes that other threads may read and write at the same time.
//!
//! An ordinary copy would be a data race. These copy byte by byte, each as if by a relaxed atomic
//! access, so that concurrent copies yield old, new or mixed bytes.

/// Copies `len` bytes.
///
/// # Safety
/// Both ranges must be mapped, the second one writable, and they must not overlap. Other threads
/// may access either of them at the same time, but not through references to non-atomic values.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction copies the ranges that the caller vouches for. The processor reads and
    // writes each byte atomically; the direction flag is clear, as in all compiled code.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for at in 0..len {
        use core::sync::atomic::{AtomicU8, Ordering};
        // SAFETY: in the ranges; an `AtomicU8` needs no alignment. A byte that only the caller
        // accesses may be read without an atomic, and is not distinguished here.
        unsafe {
            let byte = AtomicU8::from_ptr(from.add(at).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(to.add(at)).store(byte, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_is_copied_and_no_other() {
        let from: Vec<u8> = (1..=200).collect();
        for len in [0, 1, 7, 8, 64, 199] {
            let mut to = [0_u8; 200];
            // SAFETY: both are longer than `len`.
            unsafe { super::copy(from.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!(to[..len], from[..len]);
            assert!(to[len..].iter().all(|byte| *byte == 0));
        }
    }
}

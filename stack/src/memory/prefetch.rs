//! Prefetching into the cache.
//!
//! With thousands of queue pairs, each is out of the cache by the time its turn comes, and loading
//! its cache lines one after the other takes longer than sending a packet.

/// The bytes of a cache line on the supported processors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Prefetches a value that is needed soon. It has no effect except on time; without a prefetch
/// instruction it does nothing.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = core::ptr::from_ref(value).cast::<i8>();
        // Includes the rest of the line in which the value begins.
        let bytes = first.addr() % LINE + size_of_val(value);
        for offset in (0..bytes).step_by(LINE) {
            let line = first.wrapping_add(offset);
            // SAFETY: a prefetch reads and writes nothing, and it can't fault whatever
            // the address is; every x86-64 has the instruction.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_size_stay_what_they_are() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (from, to) in [(0, 0), (63, 64), (1, 130), (0, 256), (256, 256)] {
            prefetch(&bytes[from..to]);
        }
        prefetch(&());
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(n, byte)| n == usize::from(*byte))
        );
    }
}

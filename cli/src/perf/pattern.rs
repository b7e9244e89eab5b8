//! The contents of messages, and their comparison.

use crate::error::Error;
use roce_verbs::MemoryRegion;
use roce_verbs::faults::splitmix64;

/// Fills `out` with the pattern of message `slot` under `seed`.
fn fill(seed: u64, slot: usize, out: &mut [u8]) {
    // SplitMix64: each 8 bytes depend only on seed and position.
    let mut state = seed ^ (slot as u64).wrapping_mul(0xd134_2543_de82_ef95);
    for chunk in out.chunks_mut(8) {
        let word = splitmix64(state);
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// Distance between two messages in the buffer: the size, aligned for atomics.
pub(super) fn stride(size: usize) -> usize {
    size.next_multiple_of(8)
}

/// Writes the patterns of `slots` messages into the region.
pub(super) fn write(
    region: &MemoryRegion,
    seed: u64,
    slots: usize,
    size: usize,
) -> Result<(), Error> {
    let mut expected = vec![0; size];
    for slot in 0..slots {
        fill(seed, slot, &mut expected);
        region.write(slot * stride(size), &expected)?;
    }
    Ok(())
}

/// Zeroes the buffers of `slots` messages.
pub(super) fn clear(region: &MemoryRegion, slots: usize, size: usize) -> Result<(), Error> {
    let zeros = vec![0; stride(size)];
    (0..slots).try_for_each(|slot| region.write(slot * zeros.len(), &zeros))?;
    Ok(())
}

/// Compares `slots` messages in the region with their patterns. Returns the number of bytes
/// compared, or the difference and its position.
pub(super) fn verify(
    region: &MemoryRegion,
    seed: u64,
    slots: usize,
    size: usize,
) -> Result<u64, String> {
    let (mut expected, mut found) = (vec![0; size], vec![0; size]);
    for slot in 0..slots {
        fill(seed, slot, &mut expected);
        region
            .read(slot * stride(size), &mut found)
            .map_err(|e| e.to_string())?;
        if let Some(at) = expected.iter().zip(&found).position(|(a, b)| a != b) {
            return Err(format!(
                "message {slot}, byte {at}: found {:#04x}, expected {:#04x} (seed {seed})",
                found[at], expected[at]
            ));
        }
    }
    Ok((slots * size) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_seeds_differ() {
        let bytes = |seed, slot| {
            let mut out = [0; 21];
            fill(seed, slot, &mut out);
            out
        };
        assert_eq!(bytes(1, 2), bytes(1, 2));
        assert_ne!(bytes(1, 2), bytes(1, 3));
        assert_ne!(bytes(1, 2), bytes(2, 2));
    }
}

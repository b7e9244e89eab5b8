//! Maps keyed by numbers that the NIC itself draws at random (QPNs, memory keys). They need no
//! hashing against attackers, who can't choose the keys.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// A map from a random 32-bit number.
pub(crate) type KeyMap<V> = HashMap<u32, V, BuildHasherDefault<Spread>>;

/// Spreads a `u32` over the 64 bits of the hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0 ^ u64::from(n))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
}

//! Randomness from a seed.

use rand_chacha::ChaCha20Rng;
use rand_core::Rng;

/// Numbers from a seeded stream.
pub(crate) struct Dice(pub(crate) ChaCha20Rng);

impl Dice {
    /// One of `0 .. n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.next_u32().to_le_bytes()[0]
    }

    /// Any number, extreme ones more often.
    pub(crate) fn wild64(&mut self) -> u64 {
        let any = self.0.next_u64();
        match self.below(4) {
            0 => any % 9,
            1 => u64::MAX - any % 9,
            2 => (1 << (any % 64)) - any / 64 % 2,
            _ => any,
        }
    }

    pub(crate) fn wild32(&mut self) -> u32 {
        let any = self.wild64();
        (any ^ any >> 32) as u32
    }
}

/// The value of an environment variable that must be a number.
pub(crate) fn env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {value:?}, but must be a number")))
}

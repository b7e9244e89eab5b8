//! Random numbers from seeds.
//!
//! `ROCE_SEED=n` runs a test again with the seed n; `ROCE_SEEDS=n` runs tests of many seeds with n.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers from a seeded stream.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha20Rng);

impl Dice {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One of `0 .. n`, which must not be empty.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `from`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.0.next_u32().to_le_bytes()[0]
    }

    /// Any number, extreme ones more often.
    pub fn wild64(&mut self) -> u64 {
        let any = self.0.next_u64();
        match self.below(4) {
            0 => any % 9,
            1 => u64::MAX - any % 9,
            2 => (1 << (any % 64)) - any / 64 % 2,
            _ => any,
        }
    }

    /// As [`Dice::wild64`], with 32 bits.
    pub fn wild32(&mut self) -> u32 {
        let any = self.wild64();
        (any ^ any >> 32) as u32
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// The value of an environment variable that must be a number.
///
/// # Panics
/// If it is none.
pub fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is {value:?}, but must be a number")))
}

/// A new seed, which is printed, or `ROCE_SEED`.
///
/// # Panics
/// If `ROCE_SEED` is no number.
pub fn seed() -> u64 {
    let seed = number("ROCE_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("the clock is set").as_nanos() as u64
    });
    println!("again: ROCE_SEED={seed}");
    seed
}

/// The seeds to run: the first `usual`, unless the environment says otherwise.
///
/// # Panics
/// If `ROCE_SEED` or `ROCE_SEEDS` is no number.
pub fn seeds(usual: u64) -> Range<u64> {
    match number("ROCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ROCE_SEEDS").unwrap_or(usual),
    }
}

/// Calls `run` with each of [`seeds`]`(usual)`.
///
/// # Panics
/// If `run` panics; the message names the seed.
pub fn each_seed(usual: u64, run: impl Fn(u64)) {
    for seed in seeds(usual) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "failed: run again with ROCE_SEED={seed}");
    }
}

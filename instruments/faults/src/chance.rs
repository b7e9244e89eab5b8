//! Probabilities.

use core::fmt;
use rand_core::Rng;

/// A probability, in parts of 1,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u32);

const ONE: u32 = 1_000_000_000;

impl Chance {
    /// Never.
    pub const NEVER: Self = Self(0);

    /// Always.
    pub const ALWAYS: Self = Self(ONE);

    /// `parts` in a million. A million and more is [`Chance::ALWAYS`].
    pub const fn per_million(parts: u32) -> Self {
        if parts >= 1_000_000 {
            Self::ALWAYS
        } else {
            Self(parts * 1000)
        }
    }

    /// The probability `fraction`, from 0 (never) to 1 (always); `None` outside of this range.
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        // The cast is in range, because `contains` checks the fraction first. It is exact enough.
        (0.0..=1.0)
            .contains(&fraction)
            .then(|| Self((fraction * f64::from(ONE)).round() as u32))
    }

    /// Whether the probability is 0.
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }

    /// Draws whether it happens this time. Draws nothing if the result is certain.
    pub fn happens(self, rng: &mut impl Rng) -> bool {
        match self.0 {
            0 => false,
            ONE.. => true,
            // Draw 64 bits: with 32, the modulo operation would favour small numbers noticeably.
            parts => Self(parts).includes(rng.next_u64()),
        }
    }

    /// Whether it happens, if `drawn` is a random number.
    pub fn includes(self, drawn: u64) -> bool {
        drawn % u64::from(ONE) < u64::from(self.0)
    }
}

/// The number that SplitMix64 draws at `place`: the same number for the same place, and unlike those of
/// its neighbours.
pub const fn splitmix64(place: u64) -> u64 {
    let mut mixed = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if rest == 0 {
            return write!(f, "{percent}%");
        }
        let digits = format!("{rest:07}");
        write!(f, "{percent}.{}%", digits.trim_end_matches('0'))
    }
}

//! The contents of messages.
//!
//! Unchecked messages are full of [`FILL`]. In checked ones the first byte of each page is 0,
//! because an ibv_rc_pingpong with `-c` sends that and, as a server, checks it. The other bytes of
//! ibv_rc_pingpong are `FILL`. Those of our client depend on their position and on the message, so
//! that misplaced, lost or stale bytes are detected.

use std::fmt;

/// The byte that ibv_rc_pingpong fills its buffer with.
pub(super) const FILL: u8 = 0x7b;

/// The byte that a receive buffer is filled with before it is used again.
pub(super) const POISON: u8 = 0xee;

/// Distance of the zero bytes.
const PAGE: usize = 4096;

/// Messages this far apart may be equal. It is prime, so that it shares no factor with a power of two.
const PERIOD: u64 = 251;

/// The contents of checked messages of one size.
pub(super) struct Pattern {
    size: usize,
    /// Random bytes other than `FILL`. Message i uses those starting at i modulo `PERIOD`.
    noise: Vec<u8>,
}

/// The first wrong byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Its offset in the message.
    pub(super) offset: usize,
    pub(super) found: u8,
    pub(super) expected: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "byte {} is 0x{:02x} instead of 0x{:02x}",
            self.offset, self.found, self.expected
        )
    }
}

impl Pattern {
    pub(super) fn new(size: usize) -> Self {
        let mut state = 0x726f_6365_u64;
        let mut noise = || {
            // A step of SplitMix64, whose best bits are used.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let byte = (mixed >> 56) as u8;
            if byte == FILL { !FILL } else { byte }
        };
        Self {
            size,
            noise: (0..size + PERIOD as usize).map(|_| noise()).collect(),
        }
    }

    /// Fills in message number `message` of our client. Its length is the pattern's.
    pub(super) fn fill(&self, message: u64, out: &mut [u8]) {
        out.copy_from_slice(self.of(message));
        for zero in out.iter_mut().step_by(PAGE) {
            *zero = 0;
        }
    }

    /// Compares a message from our client, or its echo, with the expected contents.
    pub(super) fn check(&self, message: u64, data: &[u8]) -> Result<(), Mismatch> {
        let expected = self.of(message);
        compare(data, |page| &expected[page..])
    }

    /// Compares a message of ibv_rc_pingpong with the expected contents.
    pub(super) fn check_fill(data: &[u8]) -> Result<(), Mismatch> {
        compare(data, |_| &[FILL; PAGE])
    }

    /// Whether a message of a client with `-c` comes from ibv_rc_pingpong.
    pub(super) fn is_fill(data: &[u8]) -> bool {
        data.get(1) == Some(&FILL)
    }

    fn of(&self, message: u64) -> &[u8] {
        // Less than 251, so it fits.
        let shift = (message % PERIOD) as usize;
        &self.noise[shift..shift + self.size]
    }
}

/// Compares page by page: a zero, then `expected` starting at the page's offset.
fn compare<'a>(data: &[u8], expected: impl Fn(usize) -> &'a [u8]) -> Result<(), Mismatch> {
    for (number, page) in data.chunks(PAGE).enumerate() {
        let at = number * PAGE;
        let expected = &expected(at)[..page.len()];
        if page[0] == 0 && page[1..] == expected[1..] {
            continue;
        }
        let should = |i: usize| if i == 0 { 0 } else { expected[i] };
        let wrong = (0..page.len()).find(|&i| page[i] != should(i));
        if let Some(i) = wrong {
            return Err(Mismatch {
                offset: at + i,
                found: page[i],
                expected: should(i),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

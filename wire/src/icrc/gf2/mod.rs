//! Arithmetic modulo the polynomial of Ethernet's CRC-32.
//!
//! Polynomials over GF(2) of degree below 32 are words whose bit 31 is the
//! coefficient of x^0 and whose bit 0 that of x^31, as in the CRC itself. In these
//! terms a CRC register that takes in n bytes of zeros is multiplied by x^(8n).

/// The polynomial without its x^32.
pub(super) const POLYNOMIAL: u32 = 0xedb8_8320;

/// x^0.
const ONE: u32 = 1 << 31;

/// `a` times x.
const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (if a & 1 != 0 { POLYNOMIAL } else { 0 })
}

/// `a` divided by x. The polynomial has the term x^0, so this is always possible.
const fn over_x(a: u32) -> u32 {
    if a & ONE != 0 {
        (a ^ POLYNOMIAL) << 1 | 1
    } else {
        a << 1
    }
}

/// `a` times x^8.
const fn times_x8(a: u32) -> u32 {
    let mut power = a;
    let mut i = 0;
    while i < 8 {
        power = times_x(power);
        i += 1;
    }
    power
}

/// x^n, step by step: for constants.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
pub(super) const fn power(n: u32) -> u32 {
    let (mut power, mut i) = (ONE, 0);
    while i < n {
        power = times_x(power);
        i += 1;
    }
    power
}

/// The CRC register after `bytes`, bit by bit: for constants.
pub(super) const fn register(bytes: &[u8]) -> u32 {
    let mut register = !0;
    let mut i = 0;
    while i < bytes.len() {
        register = times_x8(register ^ bytes[i] as u32);
        i += 1;
    }
    register
}

/// The value of a CRC register before it took in `bytes` bytes of zeros, if it is `register`
/// afterwards: `register` times x^(-8 `bytes`). `None` for 2^16 bytes and more, which no packet
/// has.
#[inline]
pub(super) fn unshift(register: u32, bytes: usize) -> Option<u32> {
    let coarse = COARSE.get(bytes / FINE.len())?;
    // Multiply by the register last, so that the power can be computed before the register is
    // known.
    Some(product(
        product(FINE[bytes % FINE.len()], *coarse),
        register,
    ))
}

/// The contribution of `bytes` to a CRC register that started at zero. `distance` is the number of
/// bytes from the first of `bytes` to the last byte that the register takes in, both included.
///
/// CRCs are linear: a register is the sum of the contributions of its initial value and of each
/// byte. For a few bytes at constant offsets, adding contributions is faster than processing the
/// bytes in sequence, because no step waits for another.
///
/// # Panics
/// If `distance` is above [`MAX_DISTANCE`] or below the number of bytes.
#[inline(always)]
pub(super) const fn image<const N: usize>(bytes: [u8; N], distance: usize) -> u32 {
    let mut sum = 0;
    let mut i = 0;
    while i < N {
        sum ^= IMAGES[distance - i - 1][bytes[i] as usize];
        i += 1;
    }
    sum
}

/// The maximum distance for [`image`].
pub(super) const MAX_DISTANCE: usize = 30;

/// The image of each byte value at each distance from 1 on. The headers of one flow use the same
/// values again and again, so the cache needs to hold only a few entries of the table.
static IMAGES: [[u32; 256]; MAX_DISTANCE] = {
    let mut table = [[0; 256]; MAX_DISTANCE];
    let mut value = 0;
    while value < 256 {
        let mut image = value as u32;
        let mut i = 0;
        while i < MAX_DISTANCE {
            image = times_x8(image);
            table[i][value] = image;
            i += 1;
        }
        value += 1;
    }
    table
};

/// x^(-8n) for n from 0.
static FINE: [u32; 256] = powers(OVER_X8);

/// x^(-8 * 256 n) for n from 0.
static COARSE: [u32; 256] = powers(product(FINE[255], OVER_X8));

/// x^(-8).
const OVER_X8: u32 = {
    let mut power = ONE;
    let mut i = 0;
    while i < 8 {
        power = over_x(power);
        i += 1;
    }
    power
};

/// The powers of `base`, from the zeroth.
const fn powers(base: u32) -> [u32; 256] {
    let mut table = [ONE; 256];
    let mut n = 1;
    while n < table.len() {
        table[n] = product(table[n - 1], base);
        n += 1;
    }
    table
}

/// The product of two polynomials modulo the CRC's polynomial.
#[inline]
const fn product(a: u32, b: u32) -> u32 {
    // The factors' bits i and j stand for x^(31 - i) and x^(31 - j). For their
    // product, bit i + j, to stand for x^(63 - (i + j)), the word is shifted once.
    let double = carryless(a, b) << 1;
    let (low, high) = (double as u32, (double >> 32) as u32);
    // The lower half stands for x^32 and up: it is multiplied by x^32, a nibble
    // at a time.
    let mut sum = high;
    let mut nibble = 0;
    while nibble < 8 {
        sum ^= TIMES_X32[nibble][(low >> (4 * nibble) & 0xf) as usize];
        nibble += 1;
    }
    sum
}

/// For each nibble of a word, and each value of it, its product with x^32.
static TIMES_X32: [[u32; 16]; 8] = {
    let mut table = [[0; 16]; 8];
    let mut nibble = 0;
    while nibble < 8 {
        let mut value = 0;
        while value < 16 {
            let word = (value as u32) << (4 * nibble);
            table[nibble][value] = times_x8(times_x8(times_x8(times_x8(word))));
            value += 1;
        }
        nibble += 1;
    }
    table
};

/// The product of two words without carries.
///
/// Each factor is split into four with only every fourth bit set. In a product of two of those, at
/// most 8 ones meet in one place, and their carries stay within the three free places before the
/// next.
#[inline]
const fn carryless(a: u32, b: u32) -> u64 {
    const HOLES: u64 = 0x1111_1111_1111_1111;
    let mut sum = 0;
    let mut i = 0;
    while i < 4 {
        let part = a as u64 & HOLES << i;
        let mut j = 0;
        while j < 4 {
            let product = part.wrapping_mul(b as u64 & HOLES << j);
            sum ^= product & HOLES << ((i + j) % 4);
            j += 1;
        }
        i += 1;
    }
    sum
}

#[cfg(test)]
mod tests;

//! Computes the CRC register by carry-less multiplication, for headers in CPU registers and packets
//! of up to a few hundred bytes.
//!
//! A CRC register is a remainder modulo the CRC's polynomial P. To fold 16 bytes into the next 16
//! ("carry" in this module), their two halves are multiplied by x^160 and x^96 modulo P. The
//! 128-bit result has the same remainder and is added to the next 16 bytes. At the end, two more
//! steps and a Barrett reduction of 64 bits to 32 bits reduce the sum to 32 bits. (V. Gopal and
//! others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009.) No
//! table has to be in the cache.

use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_and_si128, _mm_clmulepi64_si128, _mm_cmpgt_epi8, _mm_extract_epi32,
    _mm_set_epi64x, _mm_set1_epi8, _mm_setr_epi8, _mm_shuffle_epi8, _mm_srli_si128, _mm_xor_si128,
};
use core::hint::cold_path;
use core::sync::atomic::{AtomicU8, Ordering};

use super::gf2;

mod copying;

pub(super) use copying::{MIN_LEN as MIN_COPIED_LEN, copy};

/// The number of bytes that one step processes.
pub(super) const BLOCK: usize = 16;

/// Byte 4 of the BTH.
// rule: CA17-22-masked-bth
const MASKED_BTH: u128 = 0xff << 32;

const UNKNOWN: u8 = 0;
const UNSUPPORTED: u8 = 1;
const PCLMULQDQ: u8 = 2;
/// The CPU also has the instructions that process 64 bytes at a time: AVX-512F and VPCLMULQDQ.
const VPCLMULQDQ: u8 = 3;

/// The instructions that the CPU has, detected once.
static SUPPORT: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The register after `first`, `second` (each lowest byte first) and `transport`, starting from
/// zero. Byte 4 of `transport` counts as 0xff. `None` if the CPU lacks the instructions, or if
/// `transport` has fewer than 16 bytes.
#[inline(always)]
pub(super) fn register(first: u128, second: u128, transport: &[u8]) -> Option<u32> {
    if transport.len() < BLOCK || support() < PCLMULQDQ {
        cold_path();
        return None;
    }
    #[expect(unsafe_code, reason = "not every x86-64 CPU has the instructions")]
    // SAFETY: `support` has detected the instructions that it needs.
    let register = unsafe { fold(first, second, transport) };
    Some(register)
}

#[inline(always)]
fn support() -> u8 {
    match SUPPORT.load(Ordering::Relaxed) {
        UNKNOWN => {
            cold_path();
            detect()
        }
        support => support,
    }
}

#[cold]
fn detect() -> u8 {
    let there = std::is_x86_feature_detected!("pclmulqdq")
        && std::is_x86_feature_detected!("ssse3")
        && std::is_x86_feature_detected!("sse4.1");
    let wide =
        std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("vpclmulqdq");
    let support = match (there, wide) {
        (true, true) => VPCLMULQDQ,
        (true, false) => PCLMULQDQ,
        (false, _) => UNSUPPORTED,
    };
    SUPPORT.store(support, Ordering::Relaxed);
    support
}

/// x^n modulo P, shifted by one bit, as the multiplication of reflected bits requires.
const fn power(n: u32) -> i64 {
    (gf2::power(n) as i64) << 1
}

/// The factors that carry the first and the second half of 16 bytes over `bits` bits.
const fn over(bits: u32) -> [i64; 2] {
    [power(bits + 32), power(bits - 32)]
}

const OVER_128: [i64; 2] = over(128);
const OVER_32: i64 = power(64);
const P: i64 = (gf2::POLYNOMIAL as i64) << 1 | 1;
/// x^64 / P without its remainder, reflected.
const X64_OVER_P: i64 = {
    let p = (P as u64).reverse_bits() >> 31;
    let (mut dividend, mut quotient, mut i) = (1_u128 << 64, 0_u64, 0);
    while i <= 32 {
        let shift = 32 - i;
        if dividend >> (32 + shift) & 1 != 0 {
            dividend ^= (p as u128) << shift;
            quotient |= 1 << i;
        }
        i += 1;
    }
    quotient as i64
};

/// Computes the result of [`register`].
#[target_feature(enable = "pclmulqdq,ssse3,sse4.1")]
fn fold(first: u128, second: u128, transport: &[u8]) -> u32 {
    let x = carry(vector(first), vector(second));
    remainder(fold_on(x, transport, 0))
}

/// Continues with `x` over `transport` from byte `at` on.
#[inline]
#[target_feature(enable = "pclmulqdq,ssse3,sse4.1")]
fn fold_on(mut x: __m128i, transport: &[u8], at: usize) -> __m128i {
    let mut ones = if at == 0 { MASKED_BTH } else { 0 };
    let mut rest = &transport[at..];
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
        x = carry(x, vector(u128::from_le_bytes(*block) | ones));
        (ones, rest) = (0, after);
    }
    if !rest.is_empty()
        && let Some(last) = transport.last_chunk::<BLOCK>()
    {
        x = carry_tail(x, rest.len(), vector(u128::from_le_bytes(*last)));
    }
    x
}

#[inline]
#[target_feature(enable = "sse2")]
fn vector(bytes: u128) -> __m128i {
    _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
}

/// Carries `x` over the 16 bytes of `next`, and adds them.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn carry(x: __m128i, next: __m128i) -> __m128i {
    let by = _mm_set_epi64x(OVER_128[1], OVER_128[0]);
    let low = _mm_clmulepi64_si128(x, by, 0x00);
    let high = _mm_clmulepi64_si128(x, by, 0x11);
    _mm_xor_si128(_mm_xor_si128(low, high), next)
}

/// Carries `x` over the last `len` (1 to 15) bytes of the packet, which are the end of `last`.
/// Splits `x`: its first `len` bytes are folded into the 16 bytes made of the rest of `x` and the
/// packet's last `len` bytes.
#[inline]
#[target_feature(enable = "pclmulqdq,ssse3")]
fn carry_tail(x: __m128i, len: usize, last: __m128i) -> __m128i {
    let index = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // The source index of each byte that is moved up by 16 - len; negative for those that become
    // zero.
    let up = _mm_add_epi8(index, _mm_set1_epi8(len as i8 - 16));
    // The same for bytes that are moved down by len: a shuffle uses the lowest four bits and the
    // sign.
    let down = _mm_xor_si128(up, _mm_set1_epi8(i8::MIN));
    let is_tail = _mm_cmpgt_epi8(up, _mm_set1_epi8(-1));
    let others = _mm_xor_si128(_mm_shuffle_epi8(x, down), _mm_and_si128(last, is_tail));
    carry(_mm_shuffle_epi8(x, up), others)
}

/// Reduces 128 bits to 32.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn remainder(x: __m128i) -> u32 {
    let low_word = _mm_set_epi64x(0, 0xffff_ffff);
    let by = _mm_set_epi64x(OVER_128[1], OVER_32);
    let x = _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x10), _mm_srli_si128(x, 8));
    let folded = _mm_clmulepi64_si128(_mm_and_si128(x, low_word), by, 0x00);
    let x = _mm_xor_si128(folded, _mm_srli_si128(x, 4));
    let by = _mm_set_epi64x(X64_OVER_P, P);
    let quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low_word), by, 0x10);
    let multiple = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), by, 0x00);
    _mm_extract_epi32(_mm_xor_si128(multiple, x), 1) as u32
}

//! Copies a payload into its packet, and computes the CRC during the copy.
//!
//! Each step copies 256 bytes through four registers of 64 bytes. Each register holds four 128-bit
//! sums. A step carries each sum over 2048 bits. At the end, all sums are carried over to the last
//! one.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_set_epi64x, _mm512_broadcast_i32x4, _mm512_castsi512_si128,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_inserti32x4, _mm512_loadu_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64,
};
use core::hint::cold_path;
use core::ops::Range;

use super::{
    BLOCK, MASKED_BTH, VPCLMULQDQ, carry, carry_tail, fold_on, over, remainder, support, vector,
};
use crate::Bth;

/// The bytes of a register.
const VECTOR: usize = 64;

/// The payload length in bytes from which computing the CRC during the copy is faster than after
/// it.
pub(in super::super) const MIN_LEN: usize = 512;
const _: () = assert!(MIN_LEN >= 4 * VECTOR);

const OVER_512: [i64; 2] = over(512);
const OVER_2048: [i64; 2] = over(2048);

/// Copies the payload from `from` to the bytes `payload` of `transport`. Returns the result of
/// [`register`](super::register) for all of `transport`. Returns `None`, without copying, if the
/// CPU lacks the instructions, if the payload is too short to be worth it, if it exceeds
/// `transport`, or if it begins before byte 16 but not right after the BTH.
///
/// # Safety
/// `payload.len()` bytes must be readable at `from`, and none of them may lie in `transport`.
#[inline(always)]
#[expect(unsafe_code, reason = "others may write what is copied")]
pub(in super::super) unsafe fn copy(
    first: u128,
    second: u128,
    transport: &mut [u8],
    payload: Range<usize>,
    from: *const u8,
) -> Option<u32> {
    let is_packet = payload.start == Bth::LEN || payload.start >= BLOCK;
    let is_within = payload.end <= transport.len();
    if payload.len() < MIN_LEN || !is_packet || !is_within || support() < VPCLMULQDQ {
        cold_path();
        return None;
    }
    // SAFETY: `support` has detected the instructions that it needs; the bytes of `transport` were
    // checked to exist, and those at `from` do by our own contract.
    Some(unsafe { fold(first, second, transport, payload, from) })
}

/// Implements [`copy`], after its checks.
///
/// # Safety
/// `payload` must be within `transport` and at least [`MIN_LEN`] long, and that many bytes must be
/// readable at `from`, none of them inside `transport`.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,ssse3,sse4.1")]
#[expect(unsafe_code, reason = "others may write what is copied")]
unsafe fn fold(
    first: u128,
    second: u128,
    transport: &mut [u8],
    payload: Range<usize>,
    from: *const u8,
) -> u32 {
    let (front, rest) = transport.split_at_mut(payload.start);
    let to = rest.as_mut_ptr();
    let x = carry(vector(first), vector(second));
    let x = match <&[u8; Bth::LEN]>::try_from(&*front) {
        Ok(bth) => after_bth(x, bth),
        Err(_) => fold_on(x, front, 0),
    };

    // The stores need not be aligned: aligning the destination would cost more than it gains.
    // SAFETY: the payload has at least four vectors.
    let [a, b, c, d] = unsafe { take_four(from, to, 0) };
    let with_front = carry(x, _mm512_castsi512_si128(a));
    let mut sums = [_mm512_inserti32x4::<0>(a, with_front), b, c, d];
    let (mut at, len) = (4 * VECTOR, payload.len());
    while at + 4 * VECTOR <= len {
        // SAFETY: four more vectors are there.
        let next = unsafe { take_four(from, to, at) };
        for (sum, next) in sums.iter_mut().zip(next) {
            *sum = carry_wide(*sum, OVER_2048, next);
        }
        at += 4 * VECTOR;
    }
    let [a, b, c, d] = sums;
    let ab = carry_wide(a, OVER_512, b);
    let abc = carry_wide(ab, OVER_512, c);
    let mut sum = carry_wide(abc, OVER_512, d);
    while at + VECTOR <= len {
        // SAFETY: one more vector is there.
        let next = unsafe { take(from, to, at) };
        sum = carry_wide(sum, OVER_512, next);
        at += VECTOR;
    }
    if at < len {
        // SAFETY: the rest of the payload has this length.
        unsafe { to.add(at).copy_from_nonoverlapping(from.add(at), len - at) };
    }
    remainder(fold_on(narrow(sum), transport, payload.start + at))
}

/// Carries `x` over a BTH, which is shorter than a block.
#[inline]
#[target_feature(enable = "pclmulqdq,ssse3")]
fn after_bth(x: __m128i, bth: &[u8; Bth::LEN]) -> __m128i {
    let mut last = [0; BLOCK];
    last[BLOCK - Bth::LEN..].copy_from_slice(bth);
    let masked = MASKED_BTH << (8 * (BLOCK - Bth::LEN));
    carry_tail(x, Bth::LEN, vector(u128::from_le_bytes(last) | masked))
}

/// Copies 64 bytes from byte `at` on, and returns them.
///
/// # Safety
/// 64 bytes must be readable at `from` + `at`, and writable at `to` + `at`.
#[inline]
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "others may write what is copied")]
unsafe fn take(from: *const u8, to: *mut u8, at: usize) -> __m512i {
    // SAFETY: our contract.
    unsafe {
        let bytes = _mm512_loadu_si512(from.add(at).cast());
        _mm512_storeu_si512(to.add(at).cast(), bytes);
        bytes
    }
}

/// Copies 256 bytes from byte `at` on, and returns them.
///
/// # Safety
/// As [`take`].
#[inline]
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "as for `take`")]
unsafe fn take_four(from: *const u8, to: *mut u8, at: usize) -> [__m512i; 4] {
    // SAFETY: our contract.
    unsafe {
        [
            take(from, to, at),
            take(from, to, at + VECTOR),
            take(from, to, at + 2 * VECTOR),
            take(from, to, at + 3 * VECTOR),
        ]
    }
}

/// Multiplies each 16 bytes of `x` by the factors `over`, and adds `next`.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn carry_wide(x: __m512i, over: [i64; 2], next: __m512i) -> __m512i {
    /// The ternary function a XOR b XOR c.
    const XOR: i32 = 0x96;
    let by = _mm512_broadcast_i32x4(_mm_set_epi64x(over[1], over[0]));
    let low = _mm512_clmulepi64_epi128(x, by, 0x00);
    let high = _mm512_clmulepi64_epi128(x, by, 0x11);
    _mm512_ternarylogic_epi64(low, high, next, XOR)
}

/// Carries four consecutive sums over to the last.
#[inline]
#[target_feature(enable = "avx512f,pclmulqdq")]
fn narrow(x: __m512i) -> __m128i {
    let [a, b, c, d] = [
        _mm512_castsi512_si128(x),
        _mm512_extracti32x4_epi32::<1>(x),
        _mm512_extracti32x4_epi32::<2>(x),
        _mm512_extracti32x4_epi32::<3>(x),
    ];
    carry(carry(carry(a, b), c), d)
}

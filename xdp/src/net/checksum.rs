//! The Internet checksum (RFC 1071).

/// The ones' complement sum, not folded, of the 16-bit words of `bytes`. The bytes start at an even
/// offset of the packet. If the number of bytes is odd, a zero byte is assumed after the last.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    // A sum of 32-bit words folds to the same value as the sum of the 16-bit words, and 2^32 words
    // fit into a `u64`.
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words
        .iter()
        .map(|&word| u64::from(u32::from_be_bytes(word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum into 16 bits.
#[inline]
pub(super) fn fold(sum: u64) -> u16 {
    // After the four steps, the sums are at most 2^33 - 2, 2^17 + 2^16 - 3, 2^16 and 2^16 - 1. So
    // four steps always suffice, and no branch is needed.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum of a UDP packet with this sum. It is never 0, which would mean that there is no
/// checksum.
pub(super) fn of_udp(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum as RFC 1071 defines it: one word at a time, with the carry added at once.
    fn reference(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0_u16, |sum, word| {
            let word = u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or_default()]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn sums_match_the_definition() {
        // RFC 1071, 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        let bytes: Vec<u8> = (0..4200_u32).map(|i| ((i * i) >> 3) as u8 | 0x81).collect();
        for len in (0..40).chain(4090..4200) {
            assert_eq!(
                fold(sum(&bytes[..len])),
                reference(&bytes[..len]),
                "{len} bytes"
            );
        }
        assert_eq!(fold(sum(&[0xff; 65535])), reference(&[0xff; 65535]));
    }

    #[test]
    fn any_sum_folds() {
        assert_eq!(fold(0), 0);
        for sum in (0..64).flat_map(|bit| {
            (0..40).map(move |off| (1_u64 << bit).wrapping_sub(20).wrapping_add(off))
        }) {
            // The remainder of the division by 2^16 - 1, except that it is zero only for zero.
            let expected = match sum % 0xffff {
                0 if sum > 0 => 0xffff,
                remainder => remainder as u16,
            };
            assert_eq!(fold(sum), expected, "{sum:#x}");
        }
        assert_eq!(fold(u64::MAX), 0xffff);
    }

    #[test]
    fn no_checksum_is_zero() {
        assert_eq!(of_udp(0xffff), 0xffff);
        assert_eq!(of_udp(0x1_fffe), 0xffff);
        assert_eq!(of_udp(0), 0xffff);
        assert_eq!(of_udp(0xfffe), 1);
    }
}

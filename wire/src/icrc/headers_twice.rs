//! The ICRC of a FLUSH as Soft-RoCE computes it (kernel 7.2): the bytes from the BTH on are covered
//! once more after the end of the packet, this time as they are, without the mask.

use crc32fast::Hasher;

/// The polynomial of CRC-32, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The ICRC that also covers `headers` after what `icrc` covers.
#[must_use]
pub fn cover_again(icrc: u32, headers: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(icrc);
    hasher.update(headers);
    hasher.finalize()
}

/// The ICRC that does not cover `headers`, the last bytes that `icrc` covers: the inverse of
/// [`cover_again`].
#[must_use]
pub fn cover_less(icrc: u32, headers: &[u8]) -> u32 {
    let mut register = !icrc;
    for byte in headers.iter().rev() {
        for _ in 0..8 {
            // The upper bit is that of the polynomial, if it was added.
            register = match register >> 31 {
                0 => register << 1,
                _ => (register ^ POLYNOMIAL) << 1 | 1,
            };
        }
        register ^= u32::from(*byte);
    }
    !register
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::{DONT_FRAGMENT, IpHeader, compute};

    #[test]
    fn one_is_the_inverse_of_the_other() {
        let bytes: [u8; 44] = core::array::from_fn(|n| (n as u8).wrapping_mul(37));
        for icrc in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
            let again = cover_again(icrc, &bytes);
            assert_eq!(cover_less(again, &bytes), icrc);
            assert_ne!(again, icrc);
        }
        assert_eq!(cover_again(7, &[]), 7);
        assert_eq!(cover_less(7, &[]), 7);
    }

    /// A FLUSH that Soft-RoCE of kernel 7.2 has sent.
    #[test]
    fn a_flush_of_soft_roce_has_this_icrc() {
        let headers = [
            0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x92, 0x57, 0x80, 0x00, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x02, 0x00, 0x00, 0x7f, 0x15, 0x76, 0x20, 0x00, 0x08, 0x9a, 0xc5, 0x76, 0x92,
            0x00, 0x00, 0x00, 0x06,
        ];
        let ip = IpHeader::V4 {
            src: [10, 77, 0, 2],
            dst: [10, 77, 0, 1],
            id: 0x8651,
            flags_fragment: DONT_FRAGMENT,
        };
        let icrc = compute(&ip, 0xf7e1, 4791, &headers);
        let stored = u32::from_le_bytes([0x7c, 0x6c, 0x18, 0x83]);
        assert_eq!(cover_again(icrc, &headers), stored);
        assert_ne!(icrc, stored);
    }
}

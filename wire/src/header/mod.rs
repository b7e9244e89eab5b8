//! The common code of all fixed-length headers.

/// Gives a header type `LEN`, `parse` and `emit` on slices, from its conversions
/// `from_bytes` and `to_bytes` on arrays of exactly `LEN` bytes.
macro_rules! fixed_header {
    ($type:ident, $len:literal, $layer:expr) => {
        impl $type {
            /// Length on the wire, in bytes.
            pub const LEN: usize = $len;

            /// Reads the header from the first [`Self::LEN`] bytes; ignores the bytes behind it and
            /// reserved bits.
            ///
            /// # Errors
            /// If there are fewer bytes.
            #[inline]
            pub fn parse(bytes: &[u8]) -> Result<Self, $crate::ParseError> {
                match bytes.first_chunk() {
                    Some(header) => Ok(Self::from_bytes(header)),
                    None => Err($crate::ParseError::truncated($layer, bytes.len(), $len)),
                }
            }

            /// Writes the header to the first [`Self::LEN`] bytes, with zeros for reserved bits.
            ///
            /// # Panics
            /// If `buf` is shorter than [`Self::LEN`].
            #[inline]
            pub fn emit(&self, buf: &mut [u8]) {
                buf[..$len].copy_from_slice(&self.to_bytes());
            }
        }
    };
}

pub(crate) use fixed_header;

/// The big-endian `u16` at `at`, which is a constant at every call.
#[inline(always)]
pub(crate) const fn be16<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

/// The big-endian 24-bit number at `at`.
#[inline(always)]
pub(crate) const fn be24<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([0, b[at], b[at + 1], b[at + 2]])
}

/// The big-endian `u32` at `at`.
#[inline(always)]
pub(crate) const fn be32<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// The big-endian `u64` at `at`.
#[inline(always)]
pub(crate) const fn be64<const N: usize>(b: &[u8; N], at: usize) -> u64 {
    (be32(b, at) as u64) << 32 | be32(b, at + 4) as u64
}

#[cfg(test)]
mod tests;

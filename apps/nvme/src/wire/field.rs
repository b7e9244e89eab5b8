//! Numbers and texts at fixed places of a structure.
//!
//! The places are constants, and structures are arrays, so an access beyond the end shows in the
//! first test that runs it, whatever a peer sent.

/// The little-endian 16 bits at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The little-endian 32 bits at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// The little-endian 64 bits at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Replaces the bytes from `at` on.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The text of a field: up to the first zero byte, without the spaces that pad it. Bytes that are no
/// UTF-8 become U+FFFD, and so do control characters, which no such field may have (Base, 1.4.2):
/// programs print these texts, and a peer must not control their terminal.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let text = String::from_utf8_lossy(&field[..end]);
    text.trim().replace(char::is_control, "\u{fffd}")
}

/// Replaces a field by a text that spaces pad. A text that is too long is cut.
pub(super) fn put_padded(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let len = text.len().min(field.len());
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}

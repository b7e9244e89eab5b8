//! Numbers of bytes on the command line.

pub(super) use roce_trust::output::binary_bytes as show;

/// Parses a number of bytes: digits, and K, M, G or T for powers of 1024.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no number of bytes such as 512, 4K, 64M or 1G");
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

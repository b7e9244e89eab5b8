//! Text that cannot control a terminal.

use std::io::{self, Write};

/// A writer that escapes control characters, except line breaks and tabs, so that no text of a
/// peer, a file, an interface or another process can control the terminal. An escape has the form
/// that JSON demands inside of a string, and readers of plain text understand it, too.
///
/// Each call of `write` gets whole characters: wrap a buffer in it, not the other way round.
pub struct Harmless<W>(pub W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((at, len, code)) = find_control(rest) {
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\u{code:04x}")?;
            rest = &rest[at + len..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The first control character that must be escaped: its position, its length and its number. Those
/// from U+0080 to U+009F are two bytes long, the first of which is 0xc2.
fn find_control(bytes: &[u8]) -> Option<(usize, usize, u8)> {
    bytes.iter().enumerate().find_map(|(at, &byte)| match byte {
        b'\n' | b'\t' => None,
        0..0x20 | 0x7f => Some((at, 1, byte)),
        0xc2 => bytes
            .get(at + 1)
            .filter(|next| (0x80..0xa0).contains(*next))
            .map(|&next| (at, 2, next)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let mut out = Harmless(Vec::new());
        let text = "a\x1b[2J\u{9b}1m\r\x7f\tä\u{a0}é\n";
        write!(out, "{text}").expect("a vector takes it");
        let shown = String::from_utf8(out.0).expect("text");
        assert_eq!(shown, "a\\u001b[2J\\u009b1m\\u000d\\u007f\tä\u{a0}é\n");
    }
}

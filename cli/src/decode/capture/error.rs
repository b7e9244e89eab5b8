//! Errors in a capture file, with their positions.

use std::fmt;
use std::io;

/// Why a capture file can't be read, or not completely.
pub struct CaptureError {
    /// The offset in the file, in bytes.
    pub offset: u64,
    kind: CaptureErrorKind,
}

#[derive(Debug)]
pub(super) enum CaptureErrorKind {
    /// The input could not be read.
    Io(io::Error),
    /// The first bytes match no capture format.
    Magic([u8; 4]),
    /// The file ends too early.
    Truncated {
        what: &'static str,
        available: u64,
        needed: u64,
    },
    /// A field has an invalid value.
    Field {
        field: &'static str,
        found: u64,
        expected: String,
    },
}

impl CaptureError {
    pub(super) fn new(offset: u64, kind: CaptureErrorKind) -> Self {
        Self { offset, kind }
    }

    pub(super) fn field(
        offset: u64,
        field: &'static str,
        found: impl Into<u64>,
        expected: impl Into<String>,
    ) -> Self {
        let kind = CaptureErrorKind::Field {
            field,
            found: found.into(),
            expected: expected.into(),
        };
        Self { offset, kind }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}: ", self.offset)?;
        match &self.kind {
            CaptureErrorKind::Io(error) => write!(f, "cannot read: {error}"),
            CaptureErrorKind::Magic([0x1f, 0x8b, ..]) => {
                f.write_str("found gzip's magic, expected a capture: gunzip it first")
            }
            CaptureErrorKind::Magic([0x28, 0xb5, 0x2f, 0xfd]) => {
                f.write_str("found zstd's magic, expected a capture: unzstd it first")
            }
            CaptureErrorKind::Magic([0xfd, b'7', b'z', b'X']) => {
                f.write_str("found xz's magic, expected a capture: unxz it first")
            }
            CaptureErrorKind::Magic([a, b, c, d]) => write!(
                f,
                "found {a:02x} {b:02x} {c:02x} {d:02x}, expected the magic of pcap \
                 (d4 c3 b2 a1, 4d 3c b2 a1 or reversed) or of pcapng (0a 0d 0d 0a)"
            ),
            CaptureErrorKind::Truncated {
                what,
                available,
                needed,
            } => write!(
                f,
                "the file ends in {what}: needs {needed} bytes, {available} are left"
            ),
            CaptureErrorKind::Field {
                field,
                found,
                expected,
            } => write!(
                f,
                "{field}: found {found} ({found:#x}), expected {expected}"
            ),
        }
    }
}

impl fmt::Debug for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            CaptureErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

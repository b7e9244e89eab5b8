//! Reads the bytes of a capture file, and counts them.

use std::io::{self, BufRead, BufReader, Read};

use super::CaptureError;
use super::error::CaptureErrorKind;

/// A stream with its read position.
#[derive(Debug)]
pub(super) struct CountedReader<R> {
    input: BufReader<R>,
    offset: u64,
}

impl<R: Read> CountedReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, input),
            offset: 0,
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the stream is at its end.
    pub(super) fn at_end(&mut self) -> Result<bool, CaptureError> {
        loop {
            match self.input.fill_buf() {
                Ok(bytes) => return Ok(bytes.is_empty()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(CaptureError::new(self.offset, CaptureErrorKind::Io(e))),
            }
        }
    }

    /// Fills `buffer`, which is part of `what`.
    pub(super) fn fill(
        &mut self,
        buffer: &mut [u8],
        what: &'static str,
    ) -> Result<(), CaptureError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => {
                    let kind = CaptureErrorKind::Truncated {
                        what,
                        available: filled as u64,
                        needed: buffer.len() as u64,
                    };
                    return Err(CaptureError::new(self.offset, kind));
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(CaptureError::new(self.offset, CaptureErrorKind::Io(e))),
            }
        }
        self.offset += filled as u64;
        Ok(())
    }

    /// The next `N` bytes, which are part of `what`.
    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], CaptureError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    /// Skips the next `len` bytes, which are part of `what`.
    pub(super) fn skip(&mut self, len: u64, what: &'static str) -> Result<(), CaptureError> {
        let skipped = io::copy(&mut (&mut self.input).take(len), &mut io::sink())
            .map_err(|e| CaptureError::new(self.offset, CaptureErrorKind::Io(e)))?;
        if skipped < len {
            let kind = CaptureErrorKind::Truncated {
                what,
                available: skipped,
                needed: len,
            };
            return Err(CaptureError::new(self.offset, kind));
        }
        self.offset += len;
        Ok(())
    }
}

//! The last lines of a test's output.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes to keep.
const KEPT: usize = 64 * 1024;

/// The reading end of a test's stdout or stderr, and the last bytes that came from it.
#[derive(Debug)]
pub(super) struct Output {
    /// `None` once nobody can write any more.
    pipe: Option<OwnedFd>,
    kept: VecDeque<u8>,
}

impl Output {
    pub(super) fn of(pipe: impl Into<OwnedFd>) -> io::Result<Self> {
        let pipe = pipe.into();
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            pipe: Some(pipe),
            kept: VecDeque::new(),
        })
    }

    /// The descriptor to wait for, while somebody may write.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there, at most `limit` bytes, so that a test that always prints does not keep
    /// its hunter from looking at the clock.
    pub(super) fn read(&mut self, limit: usize) {
        let mut bytes = [0; 4096];
        let mut total = 0;
        while total < limit
            && let Some(pipe) = &self.pipe
        {
            match nix::unistd::read(pipe, &mut bytes) {
                Ok(count) if count > 0 => {
                    self.kept.extend(&bytes[..count]);
                    let excess = self.kept.len().saturating_sub(KEPT);
                    self.kept.drain(..excess);
                    total += count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // Nobody can write any more.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// The kept files, as text.
    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(&Vec::from(self.kept)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_bytes_are_kept() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut output = Output::of(reader).expect("not blocking");
        for round in 0..20 {
            writer.write_all(&[b'a' + round; 4000]).expect("written");
            output.read(usize::MAX);
        }
        assert!(output.descriptor().is_some());
        drop(writer);
        output.read(usize::MAX);
        assert!(output.descriptor().is_none());
        let text = output.text();
        assert_eq!(text.len(), KEPT);
        assert!(text.starts_with('d') && text.ends_with(&"t".repeat(4000)));
    }

    #[test]
    fn a_test_that_always_prints_is_read_in_portions() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(&[b'x'; 40_000]).expect("written");
        let mut output = Output::of(reader).expect("not blocking");
        output.read(10_000);
        assert!((10_000..20_000).contains(&output.kept.len()));
    }
}

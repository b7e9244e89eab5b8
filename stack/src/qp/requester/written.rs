//! The remote memory that the peer has let this QP write.

use crate::wr::{RemoteAddr, SendOp};

/// The number of keys that are remembered.
const KEYS: usize = 4;

/// The addresses between the lowest and the highest that successful WRITEs with one key have written.
/// A key belongs to one contiguous range of addresses, so the peer accepts WRITEs to all of these.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    rkey: u32,
    start: u64,
    /// One past the last; `start` if the range is empty.
    end: u64,
}

/// The ranges of the keys that were written last.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    ranges: [Range; KEYS],
    /// The index of the range to replace by the next new key.
    oldest: usize,
}

impl Written {
    /// Notes that a request has succeeded.
    pub(super) fn note(&mut self, op: &SendOp, len: u32) {
        let (SendOp::Write(remote) | SendOp::WriteImm(remote, _)) = *op else {
            return;
        };
        let Some((start, end)) = range(remote, len) else {
            return;
        };
        let known = self
            .ranges
            .iter_mut()
            .find(|range| range.rkey == remote.rkey);
        if let Some(known) = known.filter(|known| known.start < known.end) {
            known.start = known.start.min(start);
            known.end = known.end.max(end);
            return;
        }
        let rkey = remote.rkey;
        self.ranges[self.oldest] = Range { rkey, start, end };
        self.oldest = (self.oldest + 1) % KEYS;
    }

    /// Whether the peer will let the QP write `len` bytes at `remote`, unless it has withdrawn the
    /// key since.
    pub(super) fn covers(&self, remote: RemoteAddr, len: u32) -> bool {
        range(remote, len).is_some_and(|(start, end)| {
            let mut known = self.ranges.iter();
            known.any(|known| known.rkey == remote.rkey && known.start <= start && end <= known.end)
        })
    }
}

/// The first address, and one past the last; `None` for no bytes, and if the addresses wrap around.
fn range(remote: RemoteAddr, len: u32) -> Option<(u64, u64)> {
    let end = remote.addr.checked_add(len.into())?;
    (len > 0).then_some((remote.addr, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rkey: u32, addr: u64) -> RemoteAddr {
        RemoteAddr { addr, rkey }
    }

    fn note(written: &mut Written, rkey: u32, addr: u64, len: u32) {
        written.note(&SendOp::Write(at(rkey, addr)), len);
    }

    #[test]
    fn what_lies_between_two_writes_is_covered_and_nothing_else() {
        let mut written = Written::default();
        note(&mut written, 7, 1000, 100);
        note(&mut written, 7, 3000, 100);
        for (addr, len, covered) in [
            (1000, 2100, true),
            (1500, 100, true),
            (999, 100, false),
            (3001, 100, false),
            (1000, 2101, false),
            (2000, 0, false),
            (u64::MAX, 2, false),
        ] {
            assert_eq!(written.covers(at(7, addr), len), covered, "{addr} {len}");
        }
        assert!(!written.covers(at(8, 1000), 100), "another key");
    }

    #[test]
    fn only_writes_of_some_bytes_count() {
        let mut written = Written::default();
        written.note(&SendOp::Read(at(7, 1000)), 100);
        written.note(&SendOp::Send, 100);
        note(&mut written, 0, 0, 0);
        note(&mut written, 7, u64::MAX, 100);
        assert!(!written.covers(at(7, 1000), 100));
        assert!(!written.covers(at(0, 0), 1));
        written.note(&SendOp::WriteImm(at(0, 0), 1), 100);
        assert!(written.covers(at(0, 0), 100));
    }

    #[test]
    fn the_key_that_came_first_is_forgotten() {
        let mut written = Written::default();
        for rkey in 1..=KEYS as u32 + 1 {
            note(&mut written, rkey, 0, 100);
        }
        assert!(!written.covers(at(1, 0), 100));
        for rkey in 2..=KEYS as u32 + 1 {
            assert!(written.covers(at(rkey, 0), 100));
        }
    }
}

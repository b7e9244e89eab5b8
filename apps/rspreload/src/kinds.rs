//! The kind of each descriptor, readable with one load.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Descriptors from this number up are never tracked.
const COUNT: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not tracked: a file, a pipe, another type of socket, or not open.
    Other = 0,
    /// A TCP socket that has an rsocket or may still get one.
    Socket = 1,
    /// An epoll instance.
    Epoll = 2,
    /// A descriptor of librdmacm or of this library. The program cannot close it.
    Hidden = 3,
}

static KINDS: [AtomicU8; COUNT] = [const { AtomicU8::new(0) }; COUNT];

/// One more than the highest descriptor that was ever marked.
static END: AtomicUsize = AtomicUsize::new(0);

fn index(fd: c_int) -> Option<usize> {
    usize::try_from(fd).ok().filter(|index| *index < COUNT)
}

#[inline]
pub(crate) fn get(fd: c_int) -> Kind {
    let kind = index(fd).map_or(0, |index| KINDS[index].load(Ordering::Acquire));
    match kind {
        1 => Kind::Socket,
        2 => Kind::Epoll,
        3 => Kind::Hidden,
        _ => Kind::Other,
    }
}

/// Whether the descriptor can be tracked.
pub(crate) fn is_in_range(fd: c_int) -> bool {
    index(fd).is_some()
}

pub(crate) fn set(fd: c_int, kind: Kind) {
    if let Some(index) = index(fd) {
        if kind != Kind::Other {
            END.fetch_max(index + 1, Ordering::AcqRel);
        }
        KINDS[index].store(kind as u8, Ordering::Release);
    }
}

/// The tracked descriptors from `first` to `last`, in ascending order.
pub(crate) fn marked(first: u32, last: u32) -> Vec<(c_int, Kind)> {
    let end = END.load(Ordering::Acquire).min(last as usize + 1);
    let known = (first as usize..end).map(|fd| (fd as c_int, get(fd as c_int)));
    known.filter(|(_, kind)| *kind != Kind::Other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_order() {
        set(900, Kind::Hidden);
        set(800, Kind::Socket);
        assert_eq!(get(900), Kind::Hidden);
        assert_eq!(get(901), Kind::Other);
        assert_eq!(get(-1), Kind::Other);
        assert_eq!(get(c_int::MAX), Kind::Other);
        assert_eq!(marked(800, 850), [(800, Kind::Socket)]);
        assert_eq!(marked(801, u32::MAX), [(900, Kind::Hidden)]);
    }
}

//! `select` and `pselect` for sets that contain sockets of this library.

use crate::clock::Until;
use crate::errno::{Errno, Outcome};
use crate::kinds::{self, Kind};
use crate::signals::Mask;
use crate::{poll, poll_set};
use libc::{fd_set, pollfd};
use std::ffi::{CStr, c_int};

const WORD: usize = usize::BITS as usize;

/// The poll events that each of the three sets requests.
const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

/// The poll events that make a descriptor ready in each of the three sets.
const FOUND: [i16; 3] = [
    libc::POLLIN | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLERR,
    libc::POLLPRI,
];

/// Clamps `count` to the program's descriptor table; `None` if this library has no descriptors. The
/// kernel clamps, too, so programs may pass the maximum with smaller sets. Hidden descriptors, which
/// have high numbers, must not defeat that.
pub(crate) fn clamp_to_table(count: c_int) -> Option<c_int> {
    let always = libc::FD_SETSIZE as c_int;
    if count <= always {
        return Some(count);
    }
    let none = kinds::marked(0, u32::MAX).is_empty();
    (!none).then(|| count.min(always.max(end_of_table())))
}

/// One more than the program's highest descriptor.
fn end_of_table() -> c_int {
    end_of_open(|fd| kinds::get(fd) != Kind::Hidden).unwrap_or_else(|| {
        let known = kinds::marked(0, u32::MAX).into_iter();
        let known = known.filter(|(_, kind)| *kind != Kind::Hidden);
        known.map(|(fd, _)| fd + 1).max().unwrap_or(0)
    })
}

/// One more than the highest open descriptor for which `counts` is true; `None` without `/proc`.
fn end_of_open(counts: impl Fn(c_int) -> bool) -> Option<c_int> {
    let mut end = 0;
    // SAFETY: the name is a string; this function owns the stream, and uses each entry before it reads
    // the next.
    unsafe {
        let folder = libc::opendir(c"/proc/self/fd".as_ptr());
        if folder.is_null() {
            return None;
        }
        let own = libc::dirfd(folder);
        loop {
            let entry = libc::readdir(folder);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr()).to_str();
            let fd = name.ok().and_then(|name| name.parse().ok());
            if let Some(fd) = fd.filter(|fd| *fd != own && counts(*fd)) {
                end = end.max(fd + 1);
            }
        }
        libc::closedir(folder);
    }
    Some(end)
}

/// The program's three sets: read, write and exceptional conditions.
pub(crate) struct Sets {
    sets: [*mut fd_set; 3],
    count: usize,
}

impl Sets {
    /// # Safety
    /// Each set is NULL, or has room for `count` descriptors.
    pub(crate) unsafe fn new(sets: [*mut fd_set; 3], count: c_int) -> Self {
        Self {
            sets,
            count: usize::try_from(count).unwrap_or(0),
        }
    }

    fn word(&self, set: usize, fd: usize) -> *mut usize {
        self.sets[set].cast::<usize>().wrapping_add(fd / WORD)
    }

    fn has(&self, set: usize, fd: usize) -> bool {
        // SAFETY: `new`'s caller promises room for this descriptor.
        !self.sets[set].is_null() && unsafe { *self.word(set, fd) } & 1 << (fd % WORD) != 0
    }

    /// The sets as a poll set.
    pub(crate) fn entries(&self) -> Vec<pollfd> {
        let wanted = |fd: usize| {
            let events = (0..3).filter(|set| self.has(*set, fd));
            events.fold(0, |events, set| events | EVENTS[set])
        };
        let all = (0..self.count).map(|fd| poll_set::entry(fd as c_int, wanted(fd)));
        all.filter(|entry| entry.events != 0).collect()
    }

    /// Waits, and leaves the ready descriptors in the sets.
    pub(crate) fn wait(
        &self,
        mut entries: Vec<pollfd>,
        until: Until,
        mask: Option<&Mask>,
    ) -> Outcome<c_int> {
        poll::wait(&mut entries, until, mask)?;
        if entries
            .iter()
            .any(|entry| entry.revents & libc::POLLNVAL != 0)
        {
            return Err(Errno(libc::EBADF));
        }
        let mut found = 0;
        for entry in &entries {
            for set in 0..3 {
                let is_wanted = entry.events & EVENTS[set] != 0;
                if is_wanted && entry.revents & FOUND[set] != 0 {
                    found += 1;
                } else if is_wanted {
                    let fd = entry.fd as usize;
                    // SAFETY: `new`'s caller promises room for this descriptor.
                    unsafe { *self.word(set, fd) &= !(1 << (fd % WORD)) };
                }
            }
        }
        Ok(found)
    }
}

//! Ties memory regions to the mappings that they were made of, if `ROCE_TIE_MEMORY=1` is set.
//!
//! An RNIC pins pages, so its regions are of these pages for ever. Here, a region is of addresses.
//! If a program unmaps registered memory and maps something else there, peers that know the key
//! would reach the new contents. The kernel reports unmapped ranges by `userfaultfd`, and the
//! regions in them become unusable: requests fail, and the keys stay taken until `ibv_dereg_mr`.
//!
//! Each unmapping of registered memory waits until the report is read, which is a switch to another
//! thread and back. The region becomes unusable some microseconds after that. Memory of ordinary
//! files can't be tied, and is refused.

use super::page_size;
use crate::environment;
use nix::errno::Errno;
use nix::libc;
use parking_lot::Mutex;
use roce_trust::signals;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::{Arc, Weak};

/// The environment variable that asks for ties: 1, or 0, which is the default.
const VARIABLE: &str = "ROCE_TIE_MEMORY";

/// The most regions that are tied at a time. Each may split a mapping in three, and the kernel
/// limits the number of mappings of a process.
const MAX_TIES: usize = 8192;

/// `UFFD_USER_MODE_ONLY`: faults in the kernel are not reported, which needs no privilege.
const USER_MODE_ONLY: libc::c_int = 1;

const API: u64 = 0xaa;
const REPORT_REMAP: u64 = 1 << 2;
const REPORT_UNMAP: u64 = 1 << 6;
/// Write protection, of which nothing is used. It is the mode that changes no page fault.
const MODE_WRITE_PROTECT: u64 = 1 << 1;
const WRITE_PROTECT: u64 = 1;
const WRITE_PROTECT_SHARED: u64 = 1 << 12;

const EVENT_REMAP: u8 = 0x14;
const EVENT_UNMAP: u8 = 0x16;

/// The kernel's `uffdio_api`.
#[repr(C)]
struct Handshake {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// The kernel's `uffdio_range`.
#[repr(C)]
struct Pages {
    start: u64,
    len: u64,
}

/// The kernel's `uffdio_register`.
#[repr(C)]
struct Register {
    pages: Pages,
    mode: u64,
    ioctls: u64,
}

nix::ioctl_readwrite!(handshake, API, 0x3f, Handshake);
nix::ioctl_readwrite!(register, API, 0x00, Register);
nix::ioctl_read!(unregister, API, 0x01, Pages);

/// The tied regions of this process.
static TIES: Mutex<Ties> = Mutex::new(Ties {
    source: None,
    next: 0,
    all: Vec::new(),
});

struct Ties {
    /// The descriptor, or the error if the system refused it, and the process that opened it.
    source: Option<(u32, Result<RawFd, Errno>)>,
    next: u64,
    all: Vec<Entry>,
}

/// A region that can lose its memory.
pub(super) trait Tied: Send + Sync {
    /// The program has unmapped the memory: requests that need it fail from now on.
    fn lose_memory(&self);
}

struct Entry {
    id: u64,
    bytes: Range<u64>,
    region: Weak<dyn Tied>,
}

/// Keeps a region tied until it is dropped.
#[derive(Debug)]
pub(super) struct Tie {
    id: u64,
}

/// Ties a region to the mapping of `len` bytes at `addr`, if the environment asks for it.
///
/// # Errors
/// `Unsupported` if the memory can't be tied, `OutOfMemory` if too many regions are, `InvalidInput` if
/// the variable has a wrong value.
pub(super) fn tie_memory(
    region: Weak<dyn Tied>,
    addr: usize,
    len: usize,
) -> io::Result<Option<Tie>> {
    if !is_wanted(environment::value(VARIABLE).as_deref())? {
        return Ok(None);
    }
    let bytes = addr as u64..addr.saturating_add(len) as u64;
    let mut ties = TIES.lock();
    let fd = ties.descriptor().map_err(|errno| {
        let reason = format!("{VARIABLE} needs userfaultfd, which this system refuses: {errno}");
        io::Error::new(io::ErrorKind::Unsupported, reason)
    })?;
    if ties.all.len() >= MAX_TIES {
        let reason = format!("with {VARIABLE}, a process can have {MAX_TIES} regions");
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, reason));
    }
    let pages = whole_pages(&bytes).ok_or(Errno::EINVAL)?;
    let mut request = Register {
        pages: Pages {
            start: pages.start,
            len: pages.end - pages.start,
        },
        mode: MODE_WRITE_PROTECT,
        ioctls: 0,
    };
    // SAFETY: the structure is the kernel's. Nothing is write-protected, so no access is delayed.
    #[expect(unsafe_code)]
    let registered = unsafe { register(fd, &raw mut request) };
    if let Err(errno) = registered {
        let reason = format!(
            "with {VARIABLE}, memory must be anonymous, shared or in huge pages, and the program \
             must not use userfaultfd for it: {errno}"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let id = ties.next;
    ties.next += 1;
    ties.all.push(Entry { id, bytes, region });
    Ok(Some(Tie { id }))
}

/// Whether the variable's value asks for ties.
fn is_wanted(value: Option<&OsStr>) -> io::Result<bool> {
    match value.map(OsStr::as_encoded_bytes) {
        None | Some(b"" | b"0") => Ok(false),
        Some(b"1") => Ok(true),
        _ => {
            let reason = format!("{VARIABLE} is {value:?}, and must be 0 or 1");
            Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
        }
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        let mut ties = TIES.lock();
        let Some(at) = ties.all.iter().position(|entry| entry.id == self.id) else {
            return;
        };
        let bytes = ties.all.swap_remove(at).bytes;
        let (Some((process, Ok(fd))), Some(pages)) = (ties.source, whole_pages(&bytes)) else {
            return;
        };
        if process != std::process::id() {
            return;
        }
        let mut others: Vec<Range<u64>> = ties
            .all
            .iter()
            .filter_map(|e| whole_pages(&e.bytes))
            .collect();
        others.retain(|other| other.start < pages.end && other.end > pages.start);
        for part in without(pages, others) {
            let mut part = Pages {
                start: part.start,
                len: part.end - part.start,
            };
            // SAFETY: the structure is the kernel's. If nothing is mapped there, the call fails.
            #[expect(unsafe_code)]
            let _ = unsafe { unregister(fd, &raw mut part) };
        }
    }
}

fn whole_pages(bytes: &Range<u64>) -> Option<Range<u64>> {
    let page = page_size() as u64;
    let end = bytes.end.checked_next_multiple_of(page)?;
    Some(bytes.start - bytes.start % page..end)
}

/// The parts of `range` that none of the others covers.
fn without(range: Range<u64>, mut others: Vec<Range<u64>>) -> Vec<Range<u64>> {
    others.sort_by_key(|other| other.start);
    let mut parts = Vec::new();
    let mut next = range.start;
    for other in others {
        if other.start > next {
            parts.push(next..other.start.min(range.end));
        }
        next = next.max(other.end);
    }
    if next < range.end {
        parts.push(next..range.end);
    }
    parts
}

impl Ties {
    /// The descriptor of this process. A child opens its own, because its parent's is for the
    /// parent's memory.
    fn descriptor(&mut self) -> Result<RawFd, Errno> {
        let process = std::process::id();
        if let Some((of, fd)) = self.source
            && of == process
        {
            return fd;
        }
        let opened = open().and_then(|file| {
            let fd = file.as_raw_fd();
            start_reader(file).map(|()| fd)
        });
        self.all.clear();
        self.source = Some((process, opened));
        opened
    }

    fn regions_in(&self, range: &Range<u64>) -> Vec<Arc<dyn Tied>> {
        let hit = |entry: &&Entry| entry.bytes.start < range.end && range.start < entry.bytes.end;
        let hits = self.all.iter().filter(hit);
        hits.filter_map(|entry| entry.region.upgrade()).collect()
    }
}

fn open() -> Result<File, Errno> {
    let (_, supported) = open_with(0)?;
    let wanted = REPORT_UNMAP | REPORT_REMAP | WRITE_PROTECT;
    if supported & wanted != wanted {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(open_with(wanted | supported & WRITE_PROTECT_SHARED)?.0)
}

/// Opens a source with these features. Returns it with the features that the kernel knows.
fn open_with(features: u64) -> Result<(File, u64), Errno> {
    let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
    // SAFETY: the call only makes a descriptor.
    #[expect(unsafe_code)]
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: nothing else knows the new descriptor.
    #[expect(unsafe_code)]
    let file = unsafe { File::from_raw_fd(fd) };
    let mut api = Handshake {
        api: API,
        features,
        ioctls: 0,
    };
    // SAFETY: the structure is the kernel's.
    #[expect(unsafe_code)]
    unsafe { handshake(fd, &raw mut api) }?;
    Ok((file, api.features))
}

/// Starts the thread that reads the reports until the process ends. A thread that unmaps memory waits
/// until its report is read, so the reader takes no lock before that.
fn start_reader(mut reports: File) -> Result<(), Errno> {
    let thread = std::thread::Builder::new().name("roce-unmap".to_owned());
    let started = signals::spawn(thread, move || {
        // The kernel's `uffd_msg`.
        let mut report = [0; 32];
        while reports.read_exact(&mut report).is_ok() {
            if let Some(range) = unmapped(&report) {
                let regions = TIES.lock().regions_in(&range);
                regions.iter().for_each(|region| region.lose_memory());
            }
        }
    });
    started.map(drop).map_err(|_| Errno::EAGAIN)
}

/// The range that is unmapped, or was moved, by a report.
fn unmapped(report: &[u8; 32]) -> Option<Range<u64>> {
    let word = |at: usize| {
        let bytes = report[at..at + 8].try_into().unwrap_or_default();
        u64::from_ne_bytes(bytes)
    };
    match report[0] {
        EVENT_UNMAP => Some(word(8)..word(16)),
        EVENT_REMAP => Some(word(8)..word(8).saturating_add(word(24))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_no_other_region_are_given_up() {
        let parts = |range, others: &[Range<u64>]| without(range, others.to_vec());
        assert_eq!(parts(2..10, &[6..8, 0..4]), [4..6, 8..10]);
        assert_eq!(parts(0..10, &[2..9, 3..5]), [0..2, 9..10]);
        assert!(parts(0..10, std::slice::from_ref(&(0..10))).is_empty());
        assert_eq!(parts(3..5, &[]).len(), 1);
    }

    #[test]
    fn reports_name_what_is_gone() {
        let mut report = [0; 32];
        report[8..16].copy_from_slice(&0x1000_u64.to_ne_bytes());
        report[16..24].copy_from_slice(&0x3000_u64.to_ne_bytes());
        report[24..32].copy_from_slice(&0x800_u64.to_ne_bytes());
        assert_eq!(unmapped(&report), None);
        report[0] = EVENT_UNMAP;
        assert_eq!(unmapped(&report), Some(0x1000..0x3000));
        report[0] = EVENT_REMAP;
        assert_eq!(unmapped(&report), Some(0x1000..0x1800));
    }
}

//! The mappings of this process: those that it has, by `/proc/self/maps`, and those that this library
//! makes.

use crate::log;
use crate::prelude::*;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};
use nix::sys::stat::fstat;
use roce_verbs::Access;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

const MAPS: &str = "/proc/self/maps";

pub(crate) fn page_size() -> Result<usize, Errno> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    Ok(page
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096))
}

/// Whether a file stands behind any of the addresses. If that can't be found out, one may.
pub(crate) fn have_file(range: Range<u64>) -> bool {
    let Ok(maps) = File::open(MAPS) else {
        return true;
    };
    match next_file(&maps, range.start) {
        Ok(next) => next.is_some_and(|start| start < range.end),
        // Kernels before 6.11.
        Err(_) => std::fs::read_to_string(MAPS).map_or(true, |maps| lists_file(&maps, &range)),
    }
}

/// The kernel's `procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    addr: u64,
    start: u64,
    end: u64,
    mapping_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_bytes: u32,
    build_id_bytes: u32,
    name_addr: u64,
    build_id_addr: u64,
}

nix::ioctl_readwrite!(query, b'f', 17, Query);

/// The query's flags: the mapping at the address or the next one, of those with a file.
const COVERING_OR_NEXT: u64 = 0x10;
const FILE_BACKED: u64 = 0x20;

/// The start of the first mapping with a file that reaches beyond `addr`.
fn next_file(maps: &File, addr: u64) -> Result<Option<u64>, Errno> {
    let mut found = Query {
        size: size_of::<Query>() as u64,
        flags: COVERING_OR_NEXT | FILE_BACKED,
        addr,
        ..Query::default()
    };
    // SAFETY: the structure is the kernel's, of the size that it says.
    match unsafe { query(maps.as_raw_fd(), &raw mut found) } {
        Ok(_) => Ok(Some(found.start)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the list has a mapping with a file in the range. A mapping without a file has inode 0.
fn lists_file(maps: &str, range: &Range<u64>) -> bool {
    maps.lines().any(|line| {
        let Some((begin, end, _)) = parse(line) else {
            return true;
        };
        let inode = line.split_ascii_whitespace().nth(4);
        (begin as u64) < range.end && (end as u64) > range.start && inode != Some("0")
    })
}

/// A mapping of a part of a descriptor's memory, or of anonymous memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the addresses are plain numbers, and the mapping belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is done with them through a shared reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `of` or `anonymous` mapped it, and its users were dropped before. A destructor
        // can't report an error.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

impl Mapping {
    /// Maps at least `len` bytes of anonymous memory.
    ///
    /// # Errors
    /// `EINVAL` if `len` is 0, `ENOMEM`.
    pub(crate) fn anonymous(len: usize) -> Result<Self, Errno> {
        let page = page_size()?;
        let whole = len.checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        let length = NonZeroUsize::new(whole).ok_or(Errno::EINVAL)?;
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe { mmap_anonymous(None, length, rights, MapFlags::MAP_PRIVATE) }?;
        Ok(Self { start, len: whole })
    }

    /// Makes it writable, if it is not.
    ///
    /// # Errors
    /// `EACCES` if the descriptor was not open for writing.
    pub(crate) fn allow_writes(&self) -> Result<(), Errno> {
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is this value's, and nothing relies on it being read-only.
        unsafe { mprotect(self.start, self.len, rights) }
    }

    pub(crate) fn addr(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Maps `len` bytes starting at `offset`. Returns the mapping and the address of the first
    /// byte.
    ///
    /// # Errors
    /// `EINVAL` if they exceed the file; `EOPNOTSUPP` if the exporter does not let the processor
    /// access its memory.
    pub(crate) fn of(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writes: bool,
    ) -> Result<(Self, *mut u8), Errno> {
        let size = u64::try_from(fstat(fd)?.st_size).unwrap_or(0);
        let end = offset.checked_add(len as u64).ok_or(Errno::EINVAL)?;
        if len == 0 || end > size {
            return Err(Errno::EINVAL);
        }
        let lead = offset % page_size()? as u64;
        let invalid = |_| Errno::EINVAL;
        let from = i64::try_from(offset - lead).map_err(invalid)?;
        let whole = usize::try_from(end - (offset - lead)).map_err(invalid)?;
        let mut rights = ProtFlags::PROT_READ;
        rights.set(ProtFlags::PROT_WRITE, writes);
        let length = NonZeroUsize::new(whole).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping, at an address that nobody uses.
        let start = unsafe { mmap(None, length, rights, MapFlags::MAP_SHARED, fd, from) };
        let start = start.map_err(refused)?;
        let first = start.as_ptr().cast::<u8>().wrapping_add(whole - len);
        Ok((Self { start, len: whole }, first))
    }
}

/// The error for a descriptor that can't be mapped. Exporters refuse with various errors, among them
/// `ENOTSUPP` (524), which the C library does not know.
fn refused(error: Errno) -> Errno {
    match error {
        Errno::ENOMEM | Errno::EACCES | Errno::EPERM => error,
        _ => log::with_reason(Errno::EOPNOTSUPP, || {
            "the exporter lets no processor access this buffer, as with a GPU's memory; register \
             host memory and copy"
                .to_owned()
        }),
    }
}

/// Checks that memory is mapped with the rights that `access` needs, as the kernel does at
/// registration. Without this check, a later access by the NIC would kill the process. Afterwards,
/// all pages are present.
///
/// # Errors
/// `EFAULT` if some of it is not mapped, `EINVAL` if it exceeds the address space, or the error of
/// `madvise`.
pub(crate) fn check_mapped(addr: usize, len: usize, access: Access) -> Result<(), Errno> {
    let page = page_size()?;
    let from = addr & !(page - 1);
    let to = addr.checked_add(len).ok_or(Errno::EINVAL)?;
    let advice = if access.contains(Access::LOCAL_WRITE) {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    // SAFETY: the call does not change the contents of the memory: it only makes pages present.
    let done = unsafe { libc::madvise(from as *mut c_void, to - from, advice) };
    let checked = match Errno::result(done) {
        Ok(_) => Ok(()),
        // An older kernel, a device's memory, or a mapping without the required rights.
        Err(Errno::EINVAL) => check(from, to, access),
        Err(Errno::ENOMEM) => Err(Errno::EFAULT),
        Err(errno) => Err(errno),
    };
    checked.map_err(|errno| {
        with_reason(errno, || {
            let wanted = match access.contains(Access::LOCAL_WRITE) {
                true => "readable and writable, as IBV_ACCESS_LOCAL_WRITE needs",
                false => "readable",
            };
            format!("the {len} bytes from {addr:#x} on are not all mapped {wanted}")
        })
    })
}

/// # Errors
/// `EFAULT` if some of the addresses are not mapped, or are mapped without the rights that a region
/// with this access needs.
fn check(from: usize, to: usize, access: Access) -> Result<(), Errno> {
    let maps = std::fs::read_to_string(MAPS).map_err(|_| Errno::EFAULT)?;
    if covers(&maps, from, to, access.contains(Access::LOCAL_WRITE)) {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Whether the mappings, in order of address, cover all of the range without a hole, and can be
/// read or written.
fn covers(maps: &str, from: usize, to: usize, writes: bool) -> bool {
    let mut next = from;
    for line in maps.lines() {
        let Some((begin, end, rights)) = parse(line) else {
            return false;
        };
        if next >= to {
            break;
        }
        if end <= next {
            continue;
        }
        let allowed = rights.starts_with('r') && (!writes || rights.get(1..2) == Some("w"));
        if begin > next || !allowed {
            return false;
        }
        next = end;
    }
    next >= to
}

/// Start, end and rights of a line such as `7f00-7f10 rw-p ...`.
fn parse(line: &str) -> Option<(usize, usize, &str)> {
    let mut words = line.split(' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(begin)?, number(end)?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_both_ways() {
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        let len = std::num::NonZeroUsize::new(4096).expect("not zero");
        let (rights, private) = (
            nix::sys::mman::ProtFlags::PROT_READ,
            nix::sys::mman::MapFlags::MAP_PRIVATE,
        );
        // SAFETY: new mappings, at addresses that nobody uses.
        let (mapped, anonymous) = unsafe {
            (
                nix::sys::mman::mmap(None, len, rights, private, &file, 0).expect("mapped"),
                nix::sys::mman::mmap_anonymous(None, len, rights, private).expect("mapped"),
            )
        };
        let maps = std::fs::read_to_string(MAPS).expect("readable");
        for (start, has_file) in [(mapped, true), (anonymous, false)] {
            let start = start.as_ptr() as u64;
            assert_eq!(have_file(start..start + 4096), has_file);
            assert_eq!(have_file(start + 4095..start + 4096), has_file);
            assert_eq!(lists_file(&maps, &(start..start + 4096)), has_file);
        }
        // SAFETY: the mappings were made above.
        unsafe {
            nix::sys::mman::munmap(mapped, 4096).expect("mapped");
            nix::sys::mman::munmap(anonymous, 4096).expect("mapped");
        }
    }

    #[test]
    fn all_of_it_must_be_mapped_and_allowed() {
        let maps = "1000-3000 rw-p 0 a\n3000-4000 r--p 0 b\n5000-6000 ---p 0 c\n";
        assert!(covers(maps, 0x1000, 0x3000, true));
        assert!(covers(maps, 0x2000, 0x4000, false));
        assert!(!covers(maps, 0x2000, 0x4000, true));
        assert!(!covers(maps, 0x3000, 0x5000, false));
        assert!(!covers(maps, 0x5000, 0x6000, false));
        assert!(!covers(maps, 0x6000, 0x7000, false));
        let hole = "1000-2000 rw-p 0 a\n3000-4000 rw-p 0 b\n";
        assert!(!covers(hole, 0x1000, 0x4000, false));
    }
}

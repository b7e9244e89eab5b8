//! Memory that a program has mapped, and may unmap or protect, while another process may truncate the
//! file behind it.

use super::durable::mappings::{MAPS, parse};
use super::{DurableFiles, NotPersistent, guarded_accessor, page_size};
use nix::errno::Errno;
use roce_stack::{Access, Durable, Memory};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::{fmt, io};

/// The mapped memory at `addr`. Requests that need bytes that are not there any more fail.
///
/// # Safety
/// As for [`Memory::on_demand`]. On processors other than x86-64, as for [`Memory::foreign`], except
/// that pages of a file may vanish.
///
/// # Errors
/// If the accessor can't be made.
#[expect(unsafe_code)]
pub(super) unsafe fn mapped_memory(addr: *mut u8, len: u64) -> io::Result<Memory> {
    let range = addr as u64..(addr as u64).saturating_add(len);
    // Elsewhere, a guarded access costs a system call.
    if cfg!(target_arch = "x86_64") || has_file(&range) {
        let accessor = guarded_accessor()?;
        // SAFETY: the caller promises the same.
        Ok(unsafe { Memory::on_demand(addr as u64, len, accessor) })
    } else {
        // SAFETY: the caller promises the same.
        Ok(unsafe { Memory::foreign(addr, len) })
    }
}

/// The same memory, which peers can flush to persistence.
///
/// # Errors
/// If it is not all that of files that survive a loss of power.
pub(super) fn durable_memory(memory: Memory) -> Result<Memory, NotPersistent> {
    let files: Arc<dyn Durable> = DurableFiles::behind(memory.addr(), memory.len())?;
    Ok(memory.with_durable(files))
}

/// Memory that is not mapped, or not with the rights that a region needs.
pub struct NotMapped {
    addr: usize,
    len: usize,
    writes: bool,
    source: io::Error,
}

impl fmt::Display for NotMapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            addr, len, writes, ..
        } = self;
        let wanted = match writes {
            true => "readable and writable, as IBV_ACCESS_LOCAL_WRITE needs",
            false => "readable",
        };
        write!(
            f,
            "the {len} bytes from {addr:#x} on are not all mapped {wanted}"
        )
    }
}

debug_as_display!(NotMapped);

impl std::error::Error for NotMapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl NotMapped {
    /// The system's error: `EFAULT` if some of the memory is not mapped, `EINVAL` if it exceeds the
    /// address space, or that of `madvise`.
    pub fn system(&self) -> &io::Error {
        &self.source
    }
}

/// Checks that memory is mapped with the rights that `access` needs, as the kernel does at
/// registration. Without this check, a later access by the NIC would kill the process. Afterwards,
/// all pages are present.
///
/// # Errors
/// If it is not.
pub fn check_mapped(addr: usize, len: usize, access: Access) -> Result<(), NotMapped> {
    let writes = access.contains(Access::LOCAL_WRITE);
    populate(addr, len, writes).map_err(|errno| NotMapped {
        addr,
        len,
        writes,
        source: errno.into(),
    })
}

fn populate(addr: usize, len: usize, writes: bool) -> Result<(), Errno> {
    let from = addr & !(page_size() - 1);
    let to = addr.checked_add(len).ok_or(Errno::EINVAL)?;
    let advice = match writes {
        true => nix::libc::MADV_POPULATE_WRITE,
        false => nix::libc::MADV_POPULATE_READ,
    };
    // SAFETY: the call does not change the contents of the memory: it only makes pages present.
    #[expect(unsafe_code)]
    let done = unsafe { nix::libc::madvise(from as *mut c_void, to - from, advice) };
    match Errno::result(done) {
        Ok(_) => Ok(()),
        // An older kernel, a device's memory, or a mapping without the required rights.
        Err(Errno::EINVAL) => {
            let maps = std::fs::read_to_string(MAPS).map_err(|_| Errno::EFAULT)?;
            match covers(&maps, &(from as u64..to as u64), writes) {
                true => Ok(()),
                false => Err(Errno::EFAULT),
            }
        }
        Err(Errno::ENOMEM) => Err(Errno::EFAULT),
        Err(errno) => Err(errno),
    }
}

/// Whether the mappings, in order of address, cover all of the range without a hole, and can be
/// read or written.
fn covers(maps: &str, range: &Range<u64>, writes: bool) -> bool {
    let mut next = range.start;
    for mapping in maps.lines().filter_map(parse) {
        if next >= range.end {
            break;
        }
        if mapping.range.end <= next {
            continue;
        }
        let rights = mapping.rights;
        let allowed = rights.starts_with('r') && (!writes || rights.get(1..2) == Some("w"));
        if mapping.range.start > next || !allowed {
            return false;
        }
        next = mapping.range.end;
    }
    next >= range.end
}

/// Whether a file stands behind any of the addresses. If that can't be found out, one may.
fn has_file(range: &Range<u64>) -> bool {
    let Ok(maps) = File::open(MAPS) else {
        return true;
    };
    match next_file(&maps, range.start) {
        Ok(next) => next.is_some_and(|start| start < range.end),
        // Kernels before 6.11.
        Err(_) => std::fs::read_to_string(MAPS).map_or(true, |maps| lists_file(&maps, range)),
    }
}

/// Whether the list has a mapping with a file in the range.
fn lists_file(maps: &str, range: &Range<u64>) -> bool {
    let mut all = maps.lines().filter_map(parse);
    all.any(|mapping| {
        let is_in = mapping.range.start < range.end && mapping.range.end > range.start;
        is_in && mapping.inode != 0
    })
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
    #[expect(unsafe_code)]
    let answer = unsafe { query(maps.as_raw_fd(), &raw mut found) };
    match answer {
        Ok(_) => Ok(Some(found.start)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
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
        #[expect(unsafe_code)]
        let (mapped, anonymous) = unsafe {
            (
                nix::sys::mman::mmap(None, len, rights, private, &file, 0).expect("mapped"),
                nix::sys::mman::mmap_anonymous(None, len, rights, private).expect("mapped"),
            )
        };
        let maps = std::fs::read_to_string(MAPS).expect("readable");
        for (start, has_file) in [(mapped, true), (anonymous, false)] {
            let start = start.as_ptr() as u64;
            assert_eq!(super::has_file(&(start..start + 4096)), has_file);
            assert_eq!(super::has_file(&(start + 4095..start + 4096)), has_file);
            assert_eq!(lists_file(&maps, &(start..start + 4096)), has_file);
        }
        // SAFETY: the mappings were made above.
        #[expect(unsafe_code)]
        unsafe {
            nix::sys::mman::munmap(mapped, 4096).expect("mapped");
            nix::sys::mman::munmap(anonymous, 4096).expect("mapped");
        }
    }

    #[test]
    fn all_of_it_must_be_mapped_and_allowed() {
        let maps = "1000-3000 rw-p 0 0:0 0 a\n3000-4000 r--p 0 0:0 0 b\n5000-6000 ---p 0 0:0 0 c\n";
        let covers = |maps, from, to, writes| covers(maps, &(from..to), writes);
        assert!(covers(maps, 0x1000, 0x3000, true));
        assert!(covers(maps, 0x2000, 0x4000, false));
        assert!(!covers(maps, 0x2000, 0x4000, true));
        assert!(!covers(maps, 0x3000, 0x5000, false));
        assert!(!covers(maps, 0x5000, 0x6000, false));
        assert!(!covers(maps, 0x6000, 0x7000, false));
        let hole = "1000-2000 rw-p 0 0:0 0 a\n3000-4000 rw-p 0 0:0 0 b\n";
        assert!(!covers(hole, 0x1000, 0x4000, false));
    }
}

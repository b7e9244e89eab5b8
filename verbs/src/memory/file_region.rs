//! Regions of files.

use super::durable::{DurableFiles, NotPersistent};
use super::{Mapping, Registration, guarded_accessor, page_size};
use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use nix::errno::Errno;
use nix::sys::mman::MapFlags;
use nix::sys::stat::fstat;
use roce_stack::{Access, Durable, FaultSafe, Memory, MemoryFault, NotDurable, RemoteAddr, Sge};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A registered part of a file: what peers write to it, the file gets.
///
/// A peer's FLUSH to persistence ([`Access::FLUSH_PERSISTENT`]) is answered when the file has the
/// bytes even after a loss of power. Without that, what peers write reaches the disk at some time.
///
/// If the file is truncated, requests that need the missing bytes fail.
#[derive(Debug)]
pub struct FileRegion {
    // Dropped before the mapping, which the NIC may access until then.
    registration: Registration,
    accessor: Arc<dyn FaultSafe>,
    durable: Option<Arc<DurableFiles>>,
    mapping: Mapping,
}

/// Why a part of a file was not registered.
#[non_exhaustive]
pub enum FileRegionError {
    /// The offset is not a multiple of the size of a page.
    Misaligned {
        /// The offset in bytes.
        offset: u64,
        /// The size of a page in bytes.
        page: usize,
    },
    /// The file is too short, or the length is 0.
    Length {
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        len: usize,
        /// The length of the file in bytes.
        file_len: u64,
    },
    /// The file can't be flushed to persistence.
    NotPersistent(NotPersistent),
    /// The NIC refused the registration.
    Region(RegionError),
    /// A system call failed.
    System(io::Error),
}

impl fmt::Display for FileRegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned { offset, page } => write!(
                f,
                "the offset {offset} is no multiple of {page}, the size of a page"
            ),
            Self::Length {
                offset,
                len,
                file_len,
            } => write!(
                f,
                "a region of {len} bytes from {offset} on needs a file of that length, and at least 1 \
                 byte; the file has {file_len} bytes (File::set_len makes it longer)"
            ),
            Self::NotPersistent(error) => error.fmt(f),
            Self::Region(error) => error.fmt(f),
            Self::System(error) => write!(f, "mapping the file: {error}"),
        }
    }
}

debug_as_display!(FileRegionError);

impl std::error::Error for FileRegionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::NotPersistent(error) => Some(error),
            Self::Region(error) => Some(error),
            Self::Misaligned { .. } | Self::Length { .. } => None,
        }
    }
}

impl From<Errno> for FileRegionError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl ProtectionDomain {
    /// Maps `len` bytes of a file from `offset` on, a multiple of the size of a page, and registers
    /// them. The descriptor may be closed afterwards.
    ///
    /// With [`Access::FLUSH_PERSISTENT`], peers may FLUSH the bytes to persistence. The file must then
    /// be on a disk, or on persistent memory.
    ///
    /// # Errors
    /// See [`FileRegionError`].
    pub fn register_file(
        &self,
        file: impl AsFd,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<FileRegion, FileRegionError> {
        let mapping = map(&file, offset, len, access.contains(Access::LOCAL_WRITE))?;
        let accessor = guarded_accessor().map_err(FileRegionError::System)?;
        let addr = mapping.addr() as u64;
        // SAFETY: only the NIC and the accessor use the bytes, and nobody refers to them.
        #[expect(unsafe_code)]
        let memory = unsafe { Memory::on_demand(addr, len as u64, Arc::clone(&accessor)) };
        let (memory, durable) = match access.contains(Access::FLUSH_PERSISTENT) {
            false => (memory, None),
            true => {
                let files = DurableFiles::behind(addr, len as u64);
                let files = files.map_err(FileRegionError::NotPersistent)?;
                let durable: Arc<dyn Durable> = Arc::<DurableFiles>::clone(&files);
                (memory.with_durable(durable), Some(files))
            }
        };
        let registration = self.register_memory(memory, None, access);
        Ok(FileRegion {
            registration: registration.map_err(FileRegionError::Region)?,
            accessor,
            durable,
            mapping,
        })
    }
}

impl FileRegion {
    /// The local key.
    pub fn lkey(&self) -> u32 {
        self.registration.lkey()
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.registration.rkey()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Whether it has no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// `len` bytes from `offset` on, for a work request.
    ///
    /// # Errors
    /// If they reach beyond the end, or `len` is more than a work request can name.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Sge, RegionError> {
        self.registration.slice(offset as u64, len as u64)
    }

    /// The address and key with which a peer accesses the bytes from `offset` on.
    pub fn remote(&self, offset: u64) -> RemoteAddr {
        self.registration.remote(offset)
    }

    /// Copies bytes out of the region, from `offset` on.
    ///
    /// # Errors
    /// If they reach beyond the end, or the file does not have them any more.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        let addr = self.check(offset, out.len())?;
        self.accessor.read(addr, out).map_err(missing)
    }

    /// Copies bytes into the region, from `offset` on.
    ///
    /// # Errors
    /// If they reach beyond the end, the file does not have them any more, or the region has no
    /// [`Access::LOCAL_WRITE`].
    pub fn write(&self, offset: usize, data: &[u8]) -> io::Result<()> {
        if !self.registration.access().contains(Access::LOCAL_WRITE) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the region was registered without LOCAL_WRITE",
            ));
        }
        let addr = self.check(offset, data.len())?;
        self.accessor.write(addr, data).map_err(missing)
    }

    /// Makes bytes durable, as a peer's FLUSH to persistence does. Waits for the disk.
    ///
    /// # Errors
    /// If they reach beyond the end, could not be written, now or earlier, or the region has no
    /// [`Access::FLUSH_PERSISTENT`].
    pub fn persist(&self, offset: usize, len: usize) -> io::Result<()> {
        self.check(offset, len)?;
        let Some(files) = &self.durable else {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the region was registered without FLUSH_PERSISTENT",
            ));
        };
        let done = files.persist(offset as u64, len as u64);
        done.map_err(|error: NotDurable| io::Error::other(error))
    }

    /// The address of bytes that lie in the region.
    fn check(&self, offset: usize, len: usize) -> io::Result<u64> {
        let checked = self.registration.check(offset as u64, len as u64);
        checked.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(self.mapping.addr() as u64 + offset as u64)
    }
}

/// The error for bytes that the file does not have any more.
fn missing(_: MemoryFault) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter")
}

/// Maps a part of a file.
fn map(
    file: &impl AsFd,
    offset: u64,
    len: usize,
    writes: bool,
) -> Result<Mapping, FileRegionError> {
    let page = page_size();
    if !offset.is_multiple_of(page as u64) {
        return Err(FileRegionError::Misaligned { offset, page });
    }
    let found = fstat(file)?;
    let file_len = u64::try_from(found.st_size).unwrap_or(0);
    let is_device = found.st_mode & libc::S_IFMT == libc::S_IFCHR;
    let end = offset.checked_add(len as u64);
    let fits = is_device || end.is_some_and(|end| end <= file_len);
    let (Some(size), true) = (NonZeroUsize::new(len), fits) else {
        return Err(FileRegionError::Length {
            offset,
            len,
            file_len,
        });
    };
    let map = |flags| Mapping::of(file, offset, size, writes, flags);
    // Only persistent memory has synchronous mappings.
    let synchronous = MapFlags::MAP_SHARED_VALIDATE | MapFlags::MAP_SYNC;
    Ok(map(synchronous).or_else(|_| map(MapFlags::MAP_SHARED))?)
}

//! The namespaces' bytes.

use super::subsystem::{Backing, Place};
use crate::Error;
use crate::wire::Status;
use nix::errno::Errno;
use roce_verbs::{Access, MemoryRegion, ProtectionDomain};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The length of a block.
const BLOCK: u64 = 512;
/// The most bytes of a namespace: offsets of files are signed.
const MAX_LEN: u64 = i64::MAX as u64 / BLOCK * BLOCK;
/// Files are read and written in pieces of this length.
const PIECE: usize = 128 << 10;

/// The bytes of a namespace.
#[derive(Debug)]
pub(super) enum Storage {
    /// In registered memory, from which and to which data move without a copy.
    Memory(MemoryRegion),
    /// In a file.
    File(FileStorage),
}

/// A file with the bytes of a namespace.
#[derive(Debug)]
pub(super) struct FileStorage {
    file: File,
    len: u64,
    /// Writes to the file were lost: the system reports that once, and forgets it.
    lost_writes: AtomicBool,
}

impl Storage {
    pub(super) fn open(backing: &Backing, pd: &ProtectionDomain) -> Result<Self, Error> {
        let storage = match &backing.place {
            Place::Memory(len) => Self::Memory(allocate(pd, *len)?),
            Place::File(path, len) => {
                let open = FileStorage::open(path, *len, backing.read_only);
                Self::File(open.map_err(|error| {
                    let what = format!("cannot offer {}: {error}", path.display());
                    io::Error::new(error.kind(), what)
                })?)
            }
        };
        match storage.len() {
            0 => Err(Error::Request(format!(
                "a namespace of less than {BLOCK} bytes has no blocks"
            ))),
            len if len > MAX_LEN => Err(Error::Request(format!(
                "a namespace of {len} bytes is too long: {MAX_LEN} is the most"
            ))),
            _ => Ok(storage),
        }
    }

    /// Length in bytes, a multiple of a block's.
    pub(super) fn len(&self) -> u64 {
        let len = match self {
            Self::Memory(region) => region.len() as u64,
            Self::File(file) => file.len,
        };
        len / BLOCK * BLOCK
    }

    pub(super) fn blocks(&self) -> u64 {
        self.len() / BLOCK
    }

    /// Whether writes may be lost at a power cut until a flush that can be waited for.
    pub(super) fn is_volatile(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Makes the answered writes durable.
    pub(super) fn flush(&self) -> Result<(), Status> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.flush(),
        }
    }

    /// Ends a write: if it must be durable, it succeeds when it is.
    pub(super) fn finish(&self, written: Result<(), Status>, durable: bool) -> Result<(), Status> {
        match durable {
            true => written.and_then(|()| self.flush()),
            false => written,
        }
    }

    /// Writes `data` to the bytes of the namespace from `offset` on.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Status> {
        match self {
            Self::Memory(region) => region
                .write(offset as usize, data)
                .map_err(|_| Status::INTERNAL_ERROR),
            Self::File(file) => file.write(offset, data),
        }
    }

    /// Writes `len` bytes of `from` to the bytes of the namespace from `offset` on.
    pub(super) fn write_from(
        &self,
        offset: u64,
        (from, at): (&MemoryRegion, usize),
        len: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Status> {
        pieces(len, |piece| {
            scratch.resize(piece.len(), 0);
            let read = from.read(at + piece.start, scratch);
            read.map_err(|_| Status::INTERNAL_ERROR)?;
            self.write(offset + piece.start as u64, scratch)
        })
    }
}

impl FileStorage {
    fn open(path: &Path, len: Option<u64>, read_only: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(!read_only);
        let file = match (options.open(path), len) {
            (Err(error), Some(len)) if error.kind() == ErrorKind::NotFound && !read_only => {
                let file = options.create_new(true).open(path)?;
                file.set_len(len)?;
                file
            }
            (opened, _) => opened?,
        };
        // A block device has the length 0 in its metadata, and its end where it can be sought.
        let len = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
        Ok(Self::new(file, len))
    }

    fn new(file: File, len: u64) -> Self {
        let lost_writes = AtomicBool::new(false);
        Self {
            file,
            len,
            lost_writes,
        }
    }

    /// Reads `len` bytes from `offset` on, and puts them into `to`.
    pub(super) fn read(
        &self,
        offset: u64,
        (to, at): (&MemoryRegion, usize),
        len: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Status> {
        pieces(len, |piece| {
            scratch.resize(piece.len(), 0);
            let offset = offset + piece.start as u64;
            let read = self.file.read_exact_at(scratch, offset);
            read.map_err(|_| Status::UNRECOVERED_READ_ERROR)?;
            let written = to.write(at + piece.start, scratch);
            written.map_err(|_| Status::INTERNAL_ERROR)
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let written = self.file.write_all_at(data, offset);
        written.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => Status::CAPACITY_EXCEEDED,
            _ => Status::WRITE_FAULT,
        })
    }

    /// After a failure, all later calls fail: the system drops the bytes that it could not write, so
    /// that its next call succeeds although they are lost.
    fn flush(&self) -> Result<(), Status> {
        let lost = &self.lost_writes;
        if lost.load(Ordering::Acquire) || self.file.sync_data().is_err() {
            lost.store(true, Ordering::Release);
            return Err(Status::WRITE_FAULT);
        }
        Ok(())
    }
}

fn allocate(pd: &ProtectionDomain, len: u64) -> Result<MemoryRegion, Error> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    Ok(pd.allocate(len, Access::LOCAL_WRITE)?)
}

/// Calls `each` with the pieces of `len` bytes.
fn pieces(
    len: usize,
    mut each: impl FnMut(std::ops::Range<usize>) -> Result<(), Status>,
) -> Result<(), Status> {
    let starts = (0..len).step_by(PIECE);
    starts
        .into_iter()
        .try_for_each(|start| each(start..len.min(start + PIECE)))
}

#[cfg(test)]
mod tests;

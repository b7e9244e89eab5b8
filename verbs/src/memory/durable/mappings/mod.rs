//! The mapped files of this process, by `/proc/self`.

use super::NotPersistent;
use super::file_system::{self, FileSystem};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;

pub(in crate::memory) const MAPS: &str = "/proc/self/maps";
const DETAILED_MAPS: &str = "/proc/self/smaps";
const MOUNTS: &str = "/proc/self/mountinfo";

/// Whether this library can write back cache lines on this processor.
const WRITES_BACK: bool = cfg!(target_arch = "x86_64");

/// A part of a range of addresses, of one mapping of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePart {
    pub(super) range: Range<u64>,
    pub(super) keeper: Keeper,
}

/// The keeper of bytes, which decides how they become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// A file, by `msync`.
    File,
    /// Persistent memory, when its cache lines are written back.
    CacheLines,
}

/// A line of the list.
#[derive(Debug)]
pub(in crate::memory) struct Mapping<'a> {
    pub(in crate::memory) range: Range<u64>,
    /// Such as `rw-p`; `s` at the end of those that are shared.
    pub(in crate::memory) rights: &'a str,
    /// In decimal, as mounts are listed.
    device: String,
    /// 0 without a file.
    pub(in crate::memory) inode: u64,
    path: &'a str,
}

/// The files behind the addresses `addr .. addr + len`, in order.
///
/// # Errors
/// If no file, or no durable one, stands behind some of them.
pub(super) fn files_behind(addr: u64, len: u64) -> Result<Vec<FilePart>, NotPersistent> {
    let maps = String::from_utf8_lossy(&fs::read(MAPS)?).into_owned();
    let mounts = String::from_utf8_lossy(&fs::read(MOUNTS)?).into_owned();
    let range = addr..addr.saturating_add(len);
    let mut parts = parts_in(&maps, &mounts, &range)?;
    // The detailed list takes much longer.
    if WRITES_BACK && parts.iter().any(|(_, may_be_dax)| *may_be_dax) {
        let synchronous = synchronous_mappings(BufReader::new(File::open(DETAILED_MAPS)?))?;
        for (part, may_be_dax) in &mut parts {
            let is_in =
                |all: &Range<u64>| all.start <= part.range.start && part.range.end <= all.end;
            if *may_be_dax && synchronous.iter().any(is_in) {
                part.keeper = Keeper::CacheLines;
            }
        }
    }
    Ok(parts.into_iter().map(|(part, _)| part).collect())
}

/// The parts of the range, and whether each may be mapped with `MAP_SYNC`.
fn parts_in(
    maps: &str,
    mounts: &str,
    range: &Range<u64>,
) -> Result<Vec<(FilePart, bool)>, NotPersistent> {
    let mut parts = Vec::new();
    let mut next = range.start;
    for mapping in maps.lines().filter_map(parse) {
        if next >= range.end {
            break;
        }
        if mapping.range.end <= next {
            continue;
        }
        if mapping.range.start > next {
            break;
        }
        let end = mapping.range.end.min(range.end);
        let (keeper, may_be_dax) = keeper(&mapping, mounts, next)?;
        let range = next..end;
        parts.push((FilePart { range, keeper }, may_be_dax));
        next = end;
    }
    match next < range.end {
        true => Err(NotPersistent::Unmapped { addr: next }),
        false => Ok(parts),
    }
}

/// The keeper of a mapping's bytes, and whether it may be mapped with `MAP_SYNC`. `addr` is for the
/// error.
fn keeper(mapping: &Mapping<'_>, mounts: &str, addr: u64) -> Result<(Keeper, bool), NotPersistent> {
    if mapping.inode == 0 {
        return Err(NotPersistent::NoFile { addr });
    }
    let path = mapping.path.to_owned();
    if !mapping.rights.ends_with('s') {
        return Err(NotPersistent::Private { addr, path });
    }
    if WRITES_BACK && file_system::is_device_dax(mapping.path) {
        return Ok((Keeper::CacheLines, false));
    }
    let found = file_system::mounted(mounts, &mapping.device)
        .or_else(|| file_system::of_file(mapping.path, mapping.inode));
    match found {
        Some(system) if system.is_volatile() => {
            let kind = system.kind;
            Err(NotPersistent::Volatile { addr, path, kind })
        }
        Some(FileSystem { may_be_dax, .. }) => Ok((Keeper::File, may_be_dax)),
        None if is_shared_memory(mapping.path) => {
            let kind = "shared memory".to_owned();
            Err(NotPersistent::Volatile { addr, path, kind })
        }
        None => Err(NotPersistent::Unknown { addr, path }),
    }
}

/// Whether the kernel gives such a name to memory that programs share.
fn is_shared_memory(path: &str) -> bool {
    ["/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// A line such as `7f00-7f10 rw-s 00000000 fe:00 1234   /path`.
pub(in crate::memory) fn parse(line: &str) -> Option<Mapping<'_>> {
    let (begin, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mut words = line.splitn(6, ' ').skip(1);
    let rights = words.next()?;
    let _offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = format!("{}:{}", number(major)?, number(minor)?);
    let inode = words.next()?.parse().ok()?;
    Some(Mapping {
        range: number(begin)?..number(end)?,
        rights,
        device,
        inode,
        path: words.next().unwrap_or_default().trim_start(),
    })
}

/// The mappings made with `MAP_SYNC`, whose flags are listed with `sf`.
fn synchronous_mappings(maps: impl BufRead) -> Result<Vec<Range<u64>>, NotPersistent> {
    let mut found = Vec::new();
    let mut current = None;
    for line in maps.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let is_synchronous = flags.split_ascii_whitespace().any(|flag| flag == "sf");
            found.extend(current.take().filter(|_| is_synchronous));
        } else if let Some(mapping) = parse(&line) {
            current = Some(mapping.range);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

//! The dynamic-linking information of an ELF file: its loader, the libraries that it needs, and their search
//! paths.
//!
//! Any file may be given: every offset and length is checked, and reads are bounded.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The limit for a table or string, in bytes.
const MAX_PART: u64 = 1 << 20;

/// A limit that exceeds the length of any name or search path.
const MAX_NAME: u64 = 4096;

/// The limit for the entries of a dynamic section.
const MAX_ENTRIES: usize = 4096;

/// `e_machine` of this build; 0 for an unknown one.
pub(crate) const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else if cfg!(target_arch = "powerpc64") {
    21
} else if cfg!(target_arch = "s390x") {
    22
} else {
    0
};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// The dynamic-linking information of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// Whether it is for this processor and word size. Of another one, nothing else is known.
    pub(crate) is_native: bool,
    /// The libraries that it needs.
    pub(crate) needed: Vec<String>,
    /// Folders that are searched before LD_LIBRARY_PATH, unless there is a runpath.
    pub(crate) rpath: Vec<String>,
    /// Folders that are searched after LD_LIBRARY_PATH.
    pub(crate) runpath: Vec<String>,
    /// The loader that it names. An executable without one is linked statically.
    pub(crate) interpreter: Option<String>,
}

/// A segment of a file, from the program header.
#[derive(Clone, Copy)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    len: u64,
}

impl Image {
    /// Reads a file. `None` if it is no ELF file, or is broken.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        // Reading a pipe or a device might not end.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        Self::parse(&mut File::open(path).ok()?).ok()?
    }

    fn parse(file: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let head = part(file, 0, 64)?;
        if head.len() < 64 || !head.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let mut image = Self::default();
        // 64 bits, and this processor's byte order.
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if head[4] != 2 || head[5] != order || number(&head, 18, 2) != u64::from(MACHINE) {
            return Ok(Some(image));
        }
        image.is_native = true;
        let size = number(&head, 54, 2).max(56);
        let len = size * number(&head, 56, 2);
        let table = part(file, number(&head, 32, 8), len)?;
        if (table.len() as u64) < len {
            return Ok(None);
        }
        let segments: Vec<Segment> = table
            .chunks_exact(size as usize)
            .map(|entry| Segment {
                kind: number(entry, 0, 4) as u32,
                offset: number(entry, 8, 8),
                address: number(entry, 16, 8),
                len: number(entry, 32, 8),
            })
            .collect();
        if let Some(named) = segments.iter().find(|segment| segment.kind == PT_INTERP) {
            if named.len > MAX_NAME {
                return Ok(None);
            }
            let name = part(file, named.offset, named.len)?;
            image.interpreter = Some(String::from_utf8_lossy(&name).into_owned());
        }
        if let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) {
            let entries = part(file, dynamic.offset, dynamic.len)?;
            image.read_dynamic(file, &entries, &segments)?;
        }
        Ok(Some(image))
    }

    fn read_dynamic(
        &mut self,
        file: &mut (impl Read + Seek),
        entries: &[u8],
        segments: &[Segment],
    ) -> io::Result<()> {
        let entries: Vec<(u64, u64)> = entries
            .chunks_exact(16)
            .map(|entry| (number(entry, 0, 8), number(entry, 8, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .take(MAX_ENTRIES)
            .collect();
        let value = |wanted| {
            let found = entries.iter().find(|(tag, _)| *tag == wanted);
            found.map_or(0, |(_, value)| *value)
        };
        let address = value(DT_STRTAB);
        let is_there =
            |s: &&Segment| s.kind == PT_LOAD && address >= s.address && address - s.address < s.len;
        let Some(segment) = segments.iter().find(is_there) else {
            return Ok(());
        };
        let at = segment.offset.saturating_add(address - segment.address);
        let strings = part(file, at, value(DT_STRSZ))?;
        let string = |at: u64| {
            let rest = strings.get(usize::try_from(at).unwrap_or(usize::MAX)..);
            let rest = rest.unwrap_or_default();
            let name = &rest[..rest.len().min(MAX_NAME as usize)];
            let text = name.split(|byte| *byte == 0).next();
            String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
        };
        let folders = |at| string(at).split(':').map(str::to_owned).collect();
        for (tag, value) in entries {
            match tag {
                DT_NEEDED => self.needed.push(string(value)),
                DT_RPATH => self.rpath = folders(value),
                DT_RUNPATH => self.runpath = folders(value),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads part of a file; returns fewer bytes if it ends earlier.
fn part(file: &mut (impl Read + Seek), at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(len.min(MAX_PART)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A number of `len` bytes in this processor's order; 0 if it is out of range.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let part = bytes.get(at..at + len).unwrap_or_default();
    let add = |n, byte: &u8| n << 8 | u64::from(*byte);
    match cfg!(target_endian = "little") {
        true => part.iter().rev().fold(0, add),
        false => part.iter().fold(0, add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing::elf;
    use std::io::Cursor;

    fn parsed(bytes: &[u8]) -> Option<Image> {
        Image::parse(&mut Cursor::new(bytes)).expect("memory can be read")
    }

    #[test]
    fn a_file_says_what_it_needs() {
        let bytes = elf(
            &["libibverbs.so.1", "libc.so.6"],
            Some("/a:$ORIGIN/../b"),
            None,
        );
        let image = parsed(&bytes).expect("an image");
        assert_eq!(image.needed, ["libibverbs.so.1", "libc.so.6"]);
        assert_eq!(image.rpath, ["/a", "$ORIGIN/../b"]);
        assert!(image.runpath.is_empty() && image.interpreter.is_some());
        let image = parsed(&elf(&[], None, Some("/c"))).expect("an image");
        assert_eq!(image.runpath, ["/c"]);
    }

    #[test]
    fn the_test_program_itself_is_parsed() {
        let own = std::env::current_exe().expect("a path");
        let image = Image::read(&own).expect("an image");
        assert!(
            image.needed.iter().any(|name| name == "libc.so.6"),
            "{image:?}"
        );
        assert!(Image::read(Path::new("/dev/zero")).is_none());
    }

    /// Otherwise, each of many entries could name the same long string.
    #[test]
    fn names_and_their_number_are_bounded() {
        let long = "x".repeat(100_000);
        let image = parsed(&elf(&[&long], None, None)).expect("an image");
        assert_eq!(image.needed, ["x".repeat(4096)]);
        let needed = |count| {
            let bytes = elf(&vec!["y"; count], None, None);
            parsed(&bytes).expect("an image").needed.len()
        };
        assert_eq!(needed(4_000), 4_000);
        assert!(needed(10_000) <= MAX_ENTRIES);
    }

    #[test]
    fn broken_files_do_not_panic() {
        let good = elf(&["libibverbs.so.1"], Some("/a"), Some("/b"));
        for len in 0..good.len() {
            let _ = parsed(&good[..len]);
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = parsed(&bad);
            }
        }
        assert_eq!(parsed(b"#!/bin/sh\n"), None);
    }
}

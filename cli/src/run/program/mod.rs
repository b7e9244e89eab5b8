//! The program to start: its path, and reasons why the library would not be used.

use crate::error::Error;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Finds a program as a shell would. Skips folders of PATH that can't be read.
///
/// # Errors
/// If it does not exist, or may not be executed.
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, Error> {
    let not_found = || {
        let name = program.to_string_lossy();
        let what = match name.contains('/') {
            true => "there is no such file",
            false => "no such program in PATH",
        };
        // As in shells.
        Error::new(format_args!("{name}: {what}")).with_exit_code(127)
    };
    if program.is_empty() {
        return Err(not_found());
    }
    let mut denied = None;
    let named = program.as_bytes().contains(&b'/');
    for path in places(program) {
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) if !named && fs::metadata(&path).is_err() => {}
            Err(source) => denied = denied.or(Some((path, source))),
        }
    }
    Err(match denied {
        None => not_found(),
        Some((program, source)) => not_started(&program, &source),
    })
}

/// A program that exists but can't be started, with the exit code of shells.
pub(crate) fn not_started(program: &Path, source: &io::Error) -> Error {
    Error::new(format_args!("{}: {source}", program.display())).with_exit_code(126)
}

fn places(program: &OsStr) -> Vec<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path)
        // An empty entry is the current folder.
        .map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new(".").join(program),
            false => folder.join(program),
        })
        .collect()
}

/// Whether the file's mode allows execution by any user.
fn executable(path: &Path) -> io::Result<()> {
    let found = match fs::metadata(path) {
        // A name below a file does not exist, either.
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(io::ErrorKind::NotFound.into());
        }
        found => found?,
    };
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(())
}

/// As whom a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// As this user.
    Own,
    /// As somebody else: it is setuid or setgid.
    Other,
    /// As this user, although it is setuid or setgid: that has no effect in a user namespace.
    OtherIgnored,
}

impl Identity {
    /// That of a program, outside of user namespaces. In one, unmapped owners look like one user.
    pub(crate) fn of(path: &Path) -> Self {
        match fs::metadata(path).is_ok_and(|found| changes_identity(&found)) {
            true => Self::Other,
            false => Self::Own,
        }
    }

    /// The same in a user namespace.
    pub(crate) fn in_user_namespace(self) -> Self {
        match self {
            Self::Own => Self::Own,
            Self::Other | Self::OtherIgnored => Self::OtherIgnored,
        }
    }
}

/// Why a program would not use the library, or not work with it, as far as its file shows.
pub(crate) fn obstacle(path: &Path, identity: Identity) -> Option<String> {
    let path_text = path.display();
    match identity {
        Identity::Own => {}
        Identity::Other => {
            return Some(format!(
                "{path_text} runs as somebody else (setuid or setgid): the loader ignores \
                 LD_LIBRARY_PATH for it, so it finds the system's libibverbs"
            ));
        }
        Identity::OtherIgnored => {
            return Some(format!(
                "{path_text} would run as somebody else (setuid or setgid), but runs as this user here, \
                 because setuid has no effect in the user namespace of `roce run`"
            ));
        }
    }
    // A file that can't be read may still be executed.
    let image = File::open(path).and_then(|mut file| Image::read(&mut file));
    match image.ok()?? {
        Image { native: false, .. } => Some(format!(
            "{path_text} is for another processor or word size than this library: it finds the \
             system's libibverbs"
        )),
        Image {
            interpreter: None, ..
        } => Some(format!(
            "{path_text} is linked statically: no library can take another's place in it"
        )),
        Image {
            interpreter: Some(loader),
            ..
        } if contains(&loader, b"ld-musl") => Some(format!(
            "{path_text} is built for musl, this library for glibc: it will not load"
        )),
        _ => None,
    }
}

fn changes_identity(found: &fs::Metadata) -> bool {
    let mode = found.permissions().mode();
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    (mode & 0o4000 != 0 && found.uid() != uid.as_raw())
        || (mode & 0o2010 == 0o2010 && found.gid() != gid.as_raw())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The loader-related facts of an ELF executable.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    /// Whether it is for this processor.
    native: bool,
    /// The loader that it names; a static program names none.
    interpreter: Option<Vec<u8>>,
}

/// The program header that names the loader.
const PT_INTERP: u32 = 3;
/// The size of the ELF header, and of a program header, of 64-bit programs.
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// Limits that exceed those of any loader.
const MAX_SEGMENTS: u16 = 1024;
const MAX_NAME_BYTES: u64 = 4096;

impl Image {
    /// Reads the headers; `None` if the file is not an ELF program (a script, say) or is invalid.
    fn read(file: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        if file.read_exact(&mut header).is_err() || !header.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        // 64 bits, and this processor's byte order.
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        let machine = u16::from_ne_bytes([header[18], header[19]]);
        if header[4] != 2 || header[5] != order || machine != MACHINE {
            return Ok(Some(Self {
                native: false,
                interpreter: None,
            }));
        }
        let table = word(&header, 32);
        let entry_bytes = u16::from_ne_bytes([header[54], header[55]]);
        let count = u16::from_ne_bytes([header[56], header[57]]);
        if usize::from(entry_bytes) != SEGMENT_BYTES || count > MAX_SEGMENTS {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(table))?;
        let mut table = vec![0; usize::from(count) * SEGMENT_BYTES];
        file.read_exact(&mut table)?;
        let named = table
            .chunks_exact(SEGMENT_BYTES)
            .find(|segment| segment[..4] == PT_INTERP.to_ne_bytes());
        let interpreter = match named {
            None => None,
            Some(segment) if word(segment, 32) > MAX_NAME_BYTES => return Ok(None),
            Some(segment) => {
                file.seek(SeekFrom::Start(word(segment, 8)))?;
                let mut name = Vec::new();
                file.take(word(segment, 32)).read_to_end(&mut name)?;
                Some(name)
            }
        };
        Ok(Some(Self {
            native: true,
            interpreter,
        }))
    }
}

/// ELF's number of this processor; 0 for an unknown one.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
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

/// The 8 bytes at an offset that is within bounds.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests;

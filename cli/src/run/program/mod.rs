//! The program to start: its path, and reasons why the library would not be used.

use crate::elf::Image;
use crate::error::Error;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Finds a program as a shell would. Skips folders of PATH that can't be read.
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
    let image = Image::read(path)?;
    match image.interpreter {
        _ if !image.is_native => Some(format!(
            "{path_text} is for another processor or word size than this library: it finds the \
             system's libibverbs"
        )),
        None => Some(format!(
            "{path_text} is linked statically: no library can take another's place in it"
        )),
        Some(loader) if loader.contains("ld-musl") => Some(format!(
            "{path_text} is built for musl, this library for glibc: it will not load"
        )),
        Some(_) => None,
    }
}

fn changes_identity(found: &fs::Metadata) -> bool {
    let mode = found.permissions().mode();
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    (mode & 0o4000 != 0 && found.uid() != uid.as_raw())
        || (mode & 0o2010 == 0o2010 && found.gid() != gid.as_raw())
}

#[cfg(test)]
mod tests;

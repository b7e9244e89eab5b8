//! Names of capture files.

use crate::CreateError;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Expands the user's `pattern` to the name for this process.
pub(crate) fn expand(pattern: &Path) -> Result<PathBuf, CreateError> {
    let mut name = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    if rest.is_empty() {
        return Err(CreateError::Empty);
    }
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match rest.split_first() {
            Some((b'p', after)) => {
                name.extend(std::process::id().to_string().bytes());
                rest = after;
            }
            Some((b'%', after)) => {
                name.push(b'%');
                rest = after;
            }
            _ => {
                let found = String::from_utf8_lossy(rest).chars().next();
                return Err(CreateError::Percent { found });
            }
        }
    }
    Ok(OsString::from_vec(name).into())
}

/// The `number`th name for a file called `wanted`: `run.pcapng`, `run-2.pcapng` and so on.
pub(crate) fn numbered(wanted: &Path, number: u32) -> PathBuf {
    let Some(stem) = wanted.file_stem().filter(|_| number > 1) else {
        return wanted.to_owned();
    };
    let mut name = stem.to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = wanted.extension() {
        name.push(".");
        name.push(extension);
    }
    wanted.with_file_name(name)
}

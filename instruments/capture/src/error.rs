//! The error of creating a capture.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a capture file could not be created.
#[non_exhaustive]
pub enum CreateError {
    /// The name is empty.
    Empty,
    /// The name has a `%` that is followed by something other than `p` or `%`.
    Percent {
        /// The character after the `%`; `None` at the end of the name.
        found: Option<char>,
    },
    /// An option after a comma in the name is wrong.
    Option {
        /// The option.
        option: String,
        /// The valid values, in words.
        right: &'static str,
    },
    /// An existing file can't be replaced.
    InTheWay {
        /// The file.
        path: PathBuf,
        /// Why it can't be replaced.
        why: String,
    },
    /// All numbered names for the file are taken.
    Taken {
        /// The last name that was tried.
        path: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RIGHT: &str = "%p is the number of the process, %% is a %";
        match self {
            Self::Empty => f.write_str("an empty name: name the file to write the capture to"),
            Self::Percent { found: Some(found) } => {
                write!(f, "%{found} stands for nothing: {RIGHT}")
            }
            Self::Percent { found: None } => {
                write!(f, "a % at the end stands for nothing: {RIGHT}")
            }
            Self::Option { option, right } => write!(f, "{option:?} after a comma: {right}"),
            Self::InTheWay { path, why } => write!(
                f,
                "cannot write {}: {why}; name another file, or remove that one",
                path.display()
            ),
            Self::Taken { path } => write!(
                f,
                "all names up to {} are taken: remove old captures, or put %p in the name for the \
                 number of the process",
                path.display()
            ),
            Self::Io { path, source } if source.kind() == io::ErrorKind::NotFound => write!(
                f,
                "cannot write {}: there is no such folder ({source})",
                path.display()
            ),
            Self::Io { path, source } if source.kind() == io::ErrorKind::NotADirectory => write!(
                f,
                "cannot write {}: part of its path is not a folder",
                path.display()
            ),
            Self::Io { path, source } => write!(f, "cannot write {}: {source}", path.display()),
        }
    }
}

impl fmt::Debug for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CreateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

//! Why memory can't be made durable.

use nix::errno::Errno;
use std::fmt;
use std::io;

/// Why memory can't be flushed to persistence.
#[non_exhaustive]
pub enum NotPersistent {
    /// Nothing is mapped at the address.
    Unmapped {
        /// The address.
        addr: u64,
    },
    /// No file stands behind the memory.
    NoFile {
        /// The first such address.
        addr: u64,
    },
    /// The file is mapped privately: what is written does not reach it.
    Private {
        /// The first such address.
        addr: u64,
        /// The file.
        path: String,
    },
    /// The file itself is in memory.
    Volatile {
        /// The first such address.
        addr: u64,
        /// The file.
        path: String,
        /// Its file system.
        kind: String,
    },
    /// It can't be found out what keeps the file: it has no name any more, and its file system is
    /// mounted nowhere.
    Unknown {
        /// The first such address.
        addr: u64,
        /// The file.
        path: String,
    },
    /// A system call failed.
    System(io::Error),
}

impl fmt::Display for NotPersistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FLUSH_PERSISTENT needs memory of a file that survives a loss of power: ")?;
        match self {
            Self::Unmapped { addr } => write!(f, "nothing is mapped at {addr:#x}"),
            Self::NoFile { addr } => write!(
                f,
                "the memory at {addr:#x} is of no file. Map a file with MAP_SHARED and register that, \
                 or leave out FLUSH_PERSISTENT"
            ),
            Self::Private { addr, path } => write!(
                f,
                "{path} is mapped privately at {addr:#x}, so what is written there does not reach the \
                 file. Map it with MAP_SHARED"
            ),
            Self::Volatile { addr, path, kind } => write!(
                f,
                "{path}, mapped at {addr:#x}, is in memory itself ({kind}). Use a file on a disk, or \
                 on persistent memory"
            ),
            Self::Unknown { addr, path } => write!(
                f,
                "{path}, mapped at {addr:#x}, has no name, and its file system is mounted nowhere. \
                 Use a file that this process can find by its name"
            ),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

debug_as_display!(NotPersistent);

impl std::error::Error for NotPersistent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

from_causes!(NotPersistent: System(io::Error));

impl From<Errno> for NotPersistent {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

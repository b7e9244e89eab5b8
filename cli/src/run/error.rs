//! Why a program was not started.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The command that builds the library beside this program, in the same profile's folder.
const BUILD: &str = if cfg!(debug_assertions) {
    "cargo build -p roce-verbs-shim"
} else {
    "cargo build --release -p roce-verbs-shim"
};

/// Why `roce run` or `roce env` failed.
#[non_exhaustive]
pub enum RunError {
    /// Invalid arguments.
    Usage(String),
    /// The library was not found in any of its usual places.
    NoLibrary {
        /// The places.
        searched: Vec<PathBuf>,
    },
    /// The library that puts TCP sockets on RDMA was not found.
    NoSockets {
        /// The places.
        searched: Vec<PathBuf>,
    },
    /// The named file is another library.
    OtherLibrary {
        /// The file.
        library: PathBuf,
    },
    /// No folder has links to the library, and none can be made.
    NoLinks {
        /// The library.
        library: PathBuf,
    },
    /// A private file system was required, but is not available.
    NoNamespace(String),
    /// The program does not exist.
    NotFound {
        /// Its name as it was given.
        program: OsString,
    },
    /// The program exists but can't be started.
    NotStarted {
        /// Its path.
        program: PathBuf,
        /// The OS error.
        source: io::Error,
    },
    /// Standard output could not be written. The error names it.
    Print(io::Error),
    /// The operating system refused something.
    System {
        /// The operation that failed.
        what: String,
        /// Its error.
        source: io::Error,
    },
}

impl RunError {
    /// An OS error, with the operation that failed.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            what: what.into(),
            source: source.into(),
        }
    }

    /// The process's exit code: 127 and 126 as in shells, for a program that does not exist or
    /// can't be started; 125 as in env(1), if this command itself failed.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Print(_) => 1,
            Self::NotFound { .. } => 127,
            Self::NotStarted { .. } => 126,
            _ => 125,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => f.write_str(text),
            Self::NoLibrary { searched } => {
                let searched: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
                write!(
                    f,
                    "the library that takes libibverbs' place is not there (looked for {}): build \
                     it beside this command with `{BUILD}`, or say where it is with --library or \
                     ROCE_LIBRARY_DIR",
                    searched.join(", ")
                )
            }
            Self::NoSockets { searched } => {
                let searched: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
                write!(
                    f,
                    "the library for --sockets is not there (looked for {}): build it with `cargo \
                     build -p roce-rspreload`, in the profile of this command",
                    searched.join(", ")
                )
            }
            Self::OtherLibrary { library } => write!(
                f,
                "{} is not this stack's library: name the one that `{BUILD}` makes, or its folder",
                library.display()
            ),
            Self::NoLinks { library } => write!(
                f,
                "{} is not called libibverbs.so.1, and there is no folder with links to it: \
                 `roce env --write FOLDER` makes one",
                library.display()
            ),
            Self::NoNamespace(why) => write!(
                f,
                "no private /sys for the program, which --namespace require asks for: {why}"
            ),
            Self::NotFound { program } => {
                let name = program.to_string_lossy();
                match name.contains('/') {
                    true => write!(f, "{name}: there is no such file"),
                    false => write!(f, "{name}: no such program in PATH"),
                }
            }
            Self::NotStarted { program, source } => {
                write!(f, "{}: {source}", program.display())
            }
            Self::Print(error) => error.fmt(f),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotStarted { source, .. } | Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

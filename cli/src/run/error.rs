//! Why a program was not started.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What puts the library beside this command, in the folder of its profile.
const BUILD: &str = if cfg!(debug_assertions) {
    "cargo build -p roce-verbs-shim"
} else {
    "cargo build --release -p roce-verbs-shim"
};

/// `roce run` or `roce env` could not do what was asked for.
#[derive(Debug)]
pub enum RunError {
    /// An argument can't be right.
    Usage(String),
    /// The library is in none of the places where it should be.
    NoLibrary {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// What was named is another library.
    OtherLibrary {
        /// The file.
        library: PathBuf,
    },
    /// No folder with the library's links is there, and none can be made.
    NoLinks {
        /// The library.
        library: PathBuf,
    },
    /// A private file system was required, and can't be had.
    NoNamespace(String),
    /// The program is not there.
    NotFound {
        /// Its name as it was given.
        program: OsString,
    },
    /// The program is there and can't be started.
    NotStarted {
        /// Its path.
        program: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The operating system refused something.
    System {
        /// What was being done.
        what: String,
        /// Its error.
        source: io::Error,
    },
}

impl RunError {
    /// An error of the operating system, with what was being done.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            what: what.into(),
            source: source.into(),
        }
    }

    /// What the process ends with: 127 and 126 as shells have them, for a program that is not
    /// there or can't be started; 125 as env(1) has it, if the failure is this command's own.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
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
            Self::NoLibrary { looked } => {
                let looked: Vec<_> = looked.iter().map(|p| p.display().to_string()).collect();
                write!(
                    f,
                    "the library that takes libibverbs' place is not there (looked for {}): build \
                     it beside this command with `{BUILD}`, or say where it is with --library or \
                     ROCE_LIBRARY_DIR",
                    looked.join(", ")
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
                write!(f, "{}: no such program in PATH", program.to_string_lossy())
            }
            Self::NotStarted { program, source } => {
                write!(f, "{}: {source}", program.display())
            }
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
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

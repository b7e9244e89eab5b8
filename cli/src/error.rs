//! Why a command failed.

use roce_fabric::FabricError;
use std::fmt;
use std::io;
use std::path::Path;

/// Why a command failed, and the exit code that it ends with.
pub struct Error {
    text: String,
    exit_code: u8,
    /// Whether nobody reads standard output any more, which ends a command without a message.
    reader_has_gone: bool,
}

impl Error {
    /// A failure with exit code 1.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            exit_code: 1,
            reader_has_gone: false,
        }
    }

    /// Wrong arguments or settings.
    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::new(text).with_exit_code(2)
    }

    /// The program was not even started; 125 as in env(1).
    pub(crate) fn not_run(text: impl fmt::Display) -> Self {
        Self::new(text).with_exit_code(125)
    }

    /// An operation that failed before the program was started.
    pub(crate) fn system(what: impl fmt::Display, source: impl fmt::Display) -> Self {
        Self::not_run(format_args!("{what}: {source}"))
    }

    /// A file that can't be written.
    pub(crate) fn write(path: &Path, source: &io::Error) -> Self {
        Self::new(format_args!("can't write {}: {source}", path.display()))
    }

    pub(crate) fn with_exit_code(mut self, exit_code: u8) -> Self {
        self.exit_code = exit_code;
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }

    pub(crate) fn reader_has_gone(&self) -> bool {
        self.reader_has_gone
    }
}

/// An error of standard output, which it names.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self {
            reader_has_gone: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(error)
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<FabricError> for Error {
    fn from(error: FabricError) -> Self {
        Self::not_run(error)
    }
}

/// Makes `?` work on the errors of `roce_verbs`, whose text is complete.
macro_rules! from_device_errors {
    ($($error:ty),+) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        }
    )+};
}

from_device_errors!(
    roce_verbs::device::OpenError,
    roce_verbs::qp::ConnectError,
    roce_verbs::qp::QpError,
    roce_verbs::memory::RegionError,
    roce_verbs::memory::BufferRangeError,
    roce_verbs::work::PostError,
    roce_verbs::completion::CqOverrun
);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

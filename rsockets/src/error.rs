//! Errors, with the errno of the socket call.

use nix::errno::Errno;
use std::fmt;

/// Why a call failed: the errno that a program of sockets expects, and the cause.
pub struct Error {
    errno: Errno,
    /// Errors of every day, such as EAGAIN, have no further cause.
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(
        errno: Errno,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let cause = Some(cause.into());
        Self { errno, cause }
    }

    /// The errno.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// The cause, where there is more to say than the errno does.
    pub fn cause(&self) -> Option<String> {
        self.cause.as_ref().map(ToString::to_string)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self { errno, cause: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "{}: {cause}", self.errno),
            None => self.errno.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// Gives the errors of other crates an errno.
pub(crate) trait OrErrno<T> {
    /// The result, or `errno` with the error as its cause.
    fn or_errno(self, errno: Errno) -> Result<T, Error>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> OrErrno<T> for Result<T, E> {
    fn or_errno(self, errno: Errno) -> Result<T, Error> {
        self.map_err(|error| Error::new(errno, error))
    }
}

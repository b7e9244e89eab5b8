//! Errors with the errno of the socket call.

use nix::errno::Errno;
use std::fmt;

/// Why a call failed: the errno that a socket program expects, and the cause.
pub struct Error {
    errno: Errno,
    /// `None` for ordinary errors such as EAGAIN.
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

    /// The cause, if there is more to say than the errno.
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

/// Maps errors of other crates to an errno.
pub(crate) trait OrErrno<T> {
    /// Maps an error to `errno`, with the error as its cause. A shortage of descriptors or memory keeps
    /// its own errno.
    fn or_errno(self, errno: Errno) -> Result<T, Error>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> OrErrno<T> for Result<T, E> {
    fn or_errno(self, errno: Errno) -> Result<T, Error> {
        self.map_err(|error| Error::new(shortage(&error).unwrap_or(errno), error))
    }
}

/// Whether an errno means that descriptors or memory ran out, so that the call may succeed later.
pub(crate) fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
}

/// The errno of the I/O error that caused `error`, if it is a shortage.
fn shortage(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut errors = chain.filter_map(|error| error.downcast_ref::<std::io::Error>());
    let errno = errors.find_map(std::io::Error::raw_os_error);
    errno
        .map(Errno::from_raw)
        .filter(|errno| is_shortage(*errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::device::OpenError;
    use std::io;

    #[test]
    fn a_shortage_of_descriptors_is_not_reported_as_a_missing_device() {
        let failed = |number| {
            let source = io::Error::from_raw_os_error(number);
            let what = "listing the network interfaces";
            let result: Result<(), _> = Err(OpenError::System { what, source });
            result
                .or_errno(Errno::ENODEV)
                .map_err(|error| error.errno())
        };
        assert_eq!(failed(libc::EMFILE), Err(Errno::EMFILE));
        assert_eq!(failed(libc::EPERM), Err(Errno::ENODEV));
    }
}

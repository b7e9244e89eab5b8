//! The number that C gets for each error.

use nix::errno::Errno;
use roce_verbs::roce_cm::CmError;
use roce_verbs::{
    AccessError, BufferRange, ConnectError, CqResizeError, CreateQpError, DeregisterError,
    ListenError, ModifyError, MulticastError, OpenError, PortError, PostError, RegionError,
    RegisterError, ReregisterError, SrqError,
};
use std::fmt::Display;
use std::io;

/// Makes a number of an error; the words go to stderr if `ROCE_LOG` is set, since the
/// number says little.
pub(crate) trait OrErrno<T> {
    fn or_errno(self) -> Result<T, Errno>;
}

impl<T, E: ToErrno + Display> OrErrno<T> for Result<T, E> {
    fn or_errno(self) -> Result<T, Errno> {
        self.map_err(|error| {
            let errno = error.to_errno();
            explain(&error, errno);
            errno
        })
    }
}

pub(crate) fn explain(error: &dyn Display, errno: Errno) {
    if std::env::var_os("ROCE_LOG").is_some_and(|value| !value.is_empty()) {
        eprintln!("roce: {error} ({errno:?})");
    }
}

pub(crate) trait ToErrno {
    fn to_errno(&self) -> Errno;
}

fn of_io(error: &io::Error) -> Errno {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number),
        None if error.kind() == io::ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        None if error.kind() == io::ErrorKind::AddrInUse => Errno::EADDRINUSE,
        None => Errno::EIO,
    }
}

impl ToErrno for io::Error {
    fn to_errno(&self) -> Errno {
        of_io(self)
    }
}

impl ToErrno for PortError {
    fn to_errno(&self) -> Errno {
        of_io(&self.source)
    }
}

impl ToErrno for OpenError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::UnknownDevice { .. } | Self::UnknownAddress { .. } => Errno::ENODEV,
            Self::Environment { .. } => Errno::EINVAL,
            Self::Datapath { .. } => Errno::EOPNOTSUPP,
            Self::System { source, .. } => of_io(source),
        }
    }
}

impl ToErrno for ModifyError {
    fn to_errno(&self) -> Errno {
        Errno::EINVAL
    }
}

impl ToErrno for MulticastError {
    fn to_errno(&self) -> Errno {
        Errno::EINVAL
    }
}

impl ToErrno for ConnectError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::Port(error) => error.to_errno(),
            Self::NotCarried { .. } => Errno::EOPNOTSUPP,
            Self::UnknownAddress { .. } => Errno::EADDRNOTAVAIL,
            Self::UnknownGid { .. } | Self::Modify(_) | Self::Address(_) | Self::Multicast(_) => {
                Errno::EINVAL
            }
        }
    }
}

impl ToErrno for PostError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::QueueFull { .. } => Errno::ENOMEM,
            _ => Errno::EINVAL,
        }
    }
}

impl ToErrno for AccessError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::BadKey => Errno::ENOENT,
            Self::WrongPd | Self::WrongQp | Self::Denied => Errno::EPERM,
            Self::WindowsBound => Errno::EBUSY,
            Self::OutOfBounds | Self::Fault => Errno::EFAULT,
        }
    }
}

impl ToErrno for RegisterError {
    fn to_errno(&self) -> Errno {
        Errno::EINVAL
    }
}

impl ToErrno for RegionError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::Register(error) => error.to_errno(),
            Self::Range(_) => Errno::EINVAL,
        }
    }
}

impl ToErrno for ReregisterError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::Register(error) => error.to_errno(),
            Self::WindowsBound { .. } => Errno::EBUSY,
            Self::UnknownKey => Errno::EINVAL,
        }
    }
}

impl ToErrno for DeregisterError {
    fn to_errno(&self) -> Errno {
        Errno::EBUSY
    }
}

impl ToErrno for SrqError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::InUse { .. } | Self::DomainInUse { .. } => Errno::EBUSY,
            Self::TooMany { .. } => Errno::ENOMEM,
            _ => Errno::EINVAL,
        }
    }
}

impl ToErrno for BufferRange {
    fn to_errno(&self) -> Errno {
        Errno::EINVAL
    }
}

impl ToErrno for CreateQpError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::QpnsUsedUp { .. } => Errno::ENOMEM,
            Self::Srq(error) => error.to_errno(),
        }
    }
}

impl ToErrno for CqResizeError {
    fn to_errno(&self) -> Errno {
        Errno::EINVAL
    }
}

impl ToErrno for CmError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::ServiceInUse { .. } => Errno::EADDRINUSE,
            Self::TooManyConnections { .. } => Errno::ENOMEM,
            _ => Errno::EINVAL,
        }
    }
}

impl ToErrno for ListenError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::Address(error) => error.to_errno(),
            Self::Agent(error) => error.to_errno(),
            Self::Steering(error) => of_io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_or_taken_says_so() {
        let used_up = CreateQpError::QpnsUsedUp { most: 130_048 };
        assert_eq!(Err::<(), _>(used_up).or_errno(), Err(Errno::ENOMEM));
        let full = PostError::QueueFull { depth: 1 };
        assert_eq!(full.to_errno(), Errno::ENOMEM);
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        assert_eq!(taken.to_errno(), Errno::EADDRINUSE);
    }
}

//! The errno value for each error.

use crate::log;
use crate::pointer::Handle;
use nix::errno::Errno;
use roce_verbs::QpKind;
use roce_verbs::cm::{ListenError, PortClaimError};
use roce_verbs::completion::{AttachCounterError, CqResizeError};
use roce_verbs::datagram::MulticastError;
use roce_verbs::datapath::PortError;
use roce_verbs::device::{OpenError, StartError, TooManyObjects};
use roce_verbs::memory::{
    AccessError, BufferRangeError, DeregisterError, DeviceMemoryError, NotMapped, NotPersistent,
    ProgramRegionError, RegionError, RegisterError, ReregisterError,
};
use roce_verbs::qp::{
    ConnectError, CreateQpError, FixedAttributesError, ModifyError, QpError, SrqError, XrcFileError,
};
use roce_verbs::rdma_cm::IdError;
use roce_verbs::roce_cm::{Addresses, CmError};
use roce_verbs::work::PostError;
use std::fmt::Display;
use std::io;

/// Converts an error to an errno value, and keeps its text for `ROCE_LOG`.
pub(crate) trait OrErrno<T> {
    fn or_errno(self) -> Result<T, Errno>;
}

impl<T, E: ToErrno + Display> OrErrno<T> for Result<T, E> {
    fn or_errno(self) -> Result<T, Errno> {
        self.map_err(|error| log::with_reason(error.to_errno(), || error.to_string()))
    }
}

/// The errno value of an error, `EINVAL` unless something else fits better. The error enums are
/// non-exhaustive.
pub(crate) trait ToErrno {
    fn to_errno(&self) -> Errno;
}

/// The object that an entry point of the C API returned.
///
/// # Errors
/// The value of `errno`, if the pointer is NULL.
pub(crate) fn created<C>(object: *mut C) -> Result<Handle<C>, Errno> {
    if object.is_null() {
        Err(Errno::last())
    } else {
        Ok(Handle::from_ptr(object))
    }
}

/// Checks the result of an entry point of the C API that returns 0 or an error number.
///
/// # Errors
/// That error.
pub(crate) fn check_errno(code: std::ffi::c_int) -> Result<(), Errno> {
    if code == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw(code))
    }
}

/// The errno values of the variants of an error; those that are not listed are `EINVAL`.
macro_rules! to_errno {
    ($($error:ident { $($variant:pat => $errno:expr,)* })*) => {$(
        impl ToErrno for $error {
            fn to_errno(&self) -> Errno {
                match self {
                    $($variant => $errno,)*
                    _ => Errno::EINVAL,
                }
            }
        }
    )*};
}

to_errno! {
    AccessError {
        Self::BadKey => Errno::ENOENT,
        Self::WrongPd | Self::WrongQp | Self::Denied => Errno::EPERM,
        Self::WindowsBound => Errno::EBUSY,
        Self::OutOfBounds | Self::Fault => Errno::EFAULT,
    }
    AttachCounterError { Self::Counted(_) => Errno::EBUSY, }
    BufferRangeError {}
    CmError {
        Self::ServiceInUse { .. } => Errno::EADDRINUSE,
        Self::TooManyConnections { .. } => Errno::ENOMEM,
    }
    ConnectError {
        Self::Start(error) => error.to_errno(),
        Self::Port(error) => error.to_errno(),
        Self::NotCarried { .. } => Errno::EOPNOTSUPP,
        Self::UnknownAddress { .. } => Errno::EADDRNOTAVAIL,
    }
    CqResizeError {}
    CreateQpError {
        Self::QpnsUsedUp { .. } => Errno::ENOMEM,
        Self::Srq(error) => error.to_errno(),
    }
    DeviceMemoryError { Self::TooLarge { .. } => Errno::ENOMEM, }
    FixedAttributesError {}
    IdError {
        Self::NoSuchDevice(_) => Errno::ENODEV,
        Self::NoRoute { source, .. } => source.to_errno(),
        Self::Joined(_) => Errno::EADDRINUSE,
        Self::NotJoined(_) => Errno::EADDRNOTAVAIL,
        Self::Random(_) => Errno::EIO,
        Self::Port(error) => error.to_errno(),
        Self::Connect(error) => error.to_errno(),
        Self::Open(error) => error.to_errno(),
        Self::Listen(error) => error.to_errno(),
        Self::Agent(error) => error.to_errno(),
        Self::Program { errno, .. } => Errno::from_raw(*errno),
    }
    ListenError {
        Self::Address(error) => error.to_errno(),
        Self::Agent(error) => error.to_errno(),
        Self::Steering(error) => error.to_errno(),
    }
    ModifyError {}
    MulticastError {}
    ProgramRegionError {
        Self::NotMapped(error) => error.to_errno(),
        Self::NotPersistent(error) => error.to_errno(),
        Self::NotMappable => Errno::EOPNOTSUPP,
        Self::Region(error) => error.to_errno(),
        Self::Reregister(error) => error.to_errno(),
        Self::Busy => Errno::EBUSY,
        Self::System(error) => error.to_errno(),
    }
    NotPersistent {
        Self::System(error) => error.to_errno(),
    }
    OpenError {
        Self::UnknownDevice { .. }
        | Self::NoSuchAddress { .. }
        | Self::UnknownAddress { .. } => Errno::ENODEV,
        Self::System { source, .. } => source.to_errno(),
    }
    PostError {
        Self::QueueFull { .. } => Errno::ENOMEM,
        Self::WrongService { kind: QpKind::Ud, .. } => Errno::EOPNOTSUPP,
    }
    QpError {
        Self::Start(error) => error.to_errno(),
        Self::Create(error) => error.to_errno(),
    }
    RegionError {
        Self::Register(error) => error.to_errno(),
    }
    RegisterError {}
    ReregisterError {
        Self::Register(error) => error.to_errno(),
        Self::WindowsBound { .. } => Errno::EBUSY,
    }
    SrqError {
        Self::InUse { .. } | Self::DomainInUse { .. } => Errno::EBUSY,
        Self::TooMany { .. } => Errno::ENOMEM,
    }
    XrcFileError {
        Self::NotOpen => Errno::EAGAIN,
        Self::System(error) => *error,
    }
    StartError {
        Self::Datapath { .. } => Errno::EOPNOTSUPP,
        Self::Stopped { .. } => Errno::EIO,
        Self::QpNumbers { source, .. } | Self::System { source, .. } => source.to_errno(),
    }
}

impl ToErrno for io::Error {
    fn to_errno(&self) -> Errno {
        match self.raw_os_error() {
            Some(number) => Errno::from_raw(number),
            None if self.kind() == io::ErrorKind::Unsupported => Errno::EOPNOTSUPP,
            None if self.kind() == io::ErrorKind::AddrInUse => Errno::EADDRINUSE,
            None if self.kind() == io::ErrorKind::InvalidInput => Errno::EINVAL,
            None if self.kind() == io::ErrorKind::OutOfMemory => Errno::ENOMEM,
            None => Errno::EIO,
        }
    }
}

impl ToErrno for NotMapped {
    fn to_errno(&self) -> Errno {
        self.system().to_errno()
    }
}

impl ToErrno for PortError {
    fn to_errno(&self) -> Errno {
        self.source.to_errno()
    }
}

/// As with a device whose table of such objects is full.
impl ToErrno for TooManyObjects {
    fn to_errno(&self) -> Errno {
        Errno::ENOMEM
    }
}

impl ToErrno for DeregisterError {
    fn to_errno(&self) -> Errno {
        Errno::EBUSY
    }
}

/// As in the kernel's connection manager, a conflict is `EADDRINUSE` if each claim names one
/// non-loopback address, and `EADDRNOTAVAIL` otherwise.
impl ToErrno for PortClaimError {
    fn to_errno(&self) -> Errno {
        match self {
            Self::Taken(taken) => {
                let is_one = |at: Addresses| at.one().is_some_and(|at| !at.is_loopback());
                if is_one(taken.wanted) && is_one(taken.at) {
                    Errno::EADDRINUSE
                } else {
                    Errno::EADDRNOTAVAIL
                }
            }
            Self::System(error) => error.to_errno(),
            // All dynamic ports are in use.
            _ => Errno::EADDRNOTAVAIL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::cm::PortTaken;
    use roce_verbs::roce_cm::PortSpace;

    #[test]
    fn a_port_is_in_use_at_one_address_and_not_available_at_many() {
        let one = Addresses::One([10, 0, 0, 1].into());
        let loopback = Addresses::One([127, 0, 0, 1].into());
        let errno = |wanted, at| {
            PortClaimError::Taken(PortTaken {
                space: PortSpace::Tcp,
                port: 7471,
                wanted,
                at,
                holder: None,
            })
            .to_errno()
        };
        assert_eq!(errno(one, one), Errno::EADDRINUSE);
        for many in [Addresses::V4, Addresses::V6, Addresses::All, loopback] {
            assert_eq!(errno(one, many), Errno::EADDRNOTAVAIL);
            assert_eq!(errno(many, one), Errno::EADDRNOTAVAIL);
            assert_eq!(errno(many, many), Errno::EADDRNOTAVAIL);
        }
    }

    #[test]
    fn what_is_used_up_or_taken_says_so() {
        let used_up = QpError::from(CreateQpError::QpnsUsedUp { max: 130_048 });
        assert_eq!(Err::<(), _>(used_up).or_errno(), Err(Errno::ENOMEM));
        let full = PostError::QueueFull { depth: 1 };
        assert_eq!(full.to_errno(), Errno::ENOMEM);
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        assert_eq!(taken.to_errno(), Errno::EADDRINUSE);
    }

    #[test]
    fn a_device_that_has_stopped_is_no_invalid_argument() {
        let device = "roce_lo".to_owned();
        let stopped = QpError::from(StartError::Stopped { device });
        assert_eq!(stopped.to_errno(), Errno::EIO);
    }

    #[test]
    fn a_region_with_windows_is_busy() {
        assert_eq!(AccessError::WindowsBound.to_errno(), Errno::EBUSY);
        let bound = ReregisterError::WindowsBound { windows: 1 };
        assert_eq!(bound.to_errno(), Errno::EBUSY);
    }
}

//! Why a step of an ID fails.

use super::State;
use crate::cm::{ListenError, PortClaimError};
use crate::error::{ConnectError, OpenError};
use nix::errno::Errno;
use roce_cm::CmError;
use std::net::IpAddr;
use std::{fmt, io};

/// Why a step of an [`Id`](super::Id) fails.
#[non_exhaustive]
pub enum IdError {
    /// The step is for other states.
    State {
        /// The ID's state.
        is: State,
        /// The states that the step is for.
        needed: &'static [State],
    },
    /// The ID has no device yet.
    NoDevice,
    /// It has no connection.
    NoConnection,
    /// It lacks an address, its own or the peer's.
    NoPath,
    /// A value is wrong.
    Invalid(String),
    /// No device has the address.
    NoSuchDevice(IpAddr),
    /// The system has no route to the peer.
    NoRoute {
        /// The peer.
        to: IpAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The ID is in the multicast group already.
    Joined(IpAddr),
    /// It is not in the group.
    NotJoined(IpAddr),
    /// The system refuses random bytes.
    Random(String),
    /// The port can't be claimed.
    Port(PortClaimError),
    /// The address can't be used.
    Connect(ConnectError),
    /// A device can't be opened.
    Open(OpenError),
    /// The connection manager can't listen.
    Listen(ListenError),
    /// The agent refused.
    Agent(CmError),
    /// The program refused: its QP can't change its state, or its device can't be opened.
    Program {
        /// The system's error number that it names.
        errno: i32,
        /// Its reason.
        reason: String,
    },
}

impl IdError {
    pub(super) fn invalid<T>(reason: String) -> Result<T, Self> {
        Err(Self::Invalid(reason))
    }

    /// Whether this process or the system is short of descriptors or memory. The same step may succeed
    /// later.
    pub(super) fn is_shortage(&self) -> bool {
        let mut number = match self {
            Self::Program { errno, .. } => Some(*errno),
            _ => None,
        };
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            let system = error.downcast_ref::<io::Error>();
            number = number.or(system.and_then(io::Error::raw_os_error));
            next = error.source();
        }
        matches!(
            number,
            Some(nix::libc::EMFILE | nix::libc::ENFILE | nix::libc::ENOMEM)
        )
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { is, needed } => {
                let needed: Vec<_> = needed.iter().map(|state| state.words()).collect();
                write!(
                    f,
                    "the ID {}; this call is for one that {}",
                    is.words(),
                    needed.join(", or ")
                )
            }
            Self::NoDevice => f.write_str(
                "the ID has no device yet: bind it to an address, or resolve the peer's",
            ),
            Self::NoConnection => f.write_str("the ID has no connection"),
            Self::NoPath => f.write_str("the ID's address or the peer's is not known"),
            Self::Invalid(reason) | Self::Program { reason, .. } => f.write_str(reason),
            Self::NoSuchDevice(address) => write!(
                f,
                "no RoCE device has the address {address}; `roce devices` lists those that there are"
            ),
            Self::NoRoute { to, source } => {
                write!(f, "the kernel has no route to {to}: ")?;
                match source.raw_os_error() {
                    Some(number) => f.write_str(Errno::from_raw(number).desc()),
                    None => source.fmt(f),
                }
            }
            Self::Joined(group) => write!(f, "the ID is in the group {group} already"),
            Self::NotJoined(group) => write!(f, "the ID is not in the group {group}"),
            Self::Random(error) => write!(f, "drawing a random PSN: {error}"),
            Self::Port(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Agent(error) => error.fmt(f),
        }
    }
}

debug_as_display!(IdError);

impl std::error::Error for IdError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoRoute { source, .. } => Some(source),
            Self::Port(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Listen(error) => Some(error),
            Self::Agent(error) => Some(error),
            _ => None,
        }
    }
}

from_causes! { IdError:
    Port(PortClaimError),
    Connect(ConnectError),
    Open(OpenError),
    Listen(ListenError),
    Agent(CmError)
}

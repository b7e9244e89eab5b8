//! The errors of a host.

use crate::AddressError;
use crate::wire::{Nqn, NqnError, Refusal, Status};
use roce_verbs::cm::ConnectionError;
use roce_verbs::device::OpenError;
use roce_verbs::memory::{BufferRangeError, RegionError};
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

/// An error of a host.
#[non_exhaustive]
pub enum Error {
    /// A text is no address of a subsystem.
    Address(AddressError),
    /// A name is no NVMe qualified name.
    Name(NqnError),
    /// The RDMA device cannot be opened.
    Device(OpenError),
    /// Memory cannot be registered.
    Memory(RegionError),
    /// A range of a buffer lies beyond its end.
    Buffer(BufferRangeError),
    /// A queue cannot be connected.
    Connect {
        /// The queue's number; 0: the admin queue.
        queue: u16,
        /// The target's address.
        at: SocketAddr,
        /// Why the target refused, if it did.
        refusal: Option<Refusal>,
        /// The connection manager's error.
        source: Box<ConnectionError>,
    },
    /// The target has no subsystem of that name.
    NoSuchSubsystem {
        /// The target's address.
        at: SocketAddr,
        /// The name.
        subsystem: Nqn,
    },
    /// The controller answered a command with an error.
    Command {
        /// The command's name.
        command: &'static str,
        /// The status.
        status: Status,
    },
    /// The controller lacks something that this host needs.
    Incompatible(String),
    /// The controller did not become ready, or did not shut down.
    NotReady {
        /// The step that failed.
        what: &'static str,
        /// How long the host waited.
        after: Duration,
    },
    /// The queue has failed. Commands that were outstanding may or may not have been executed.
    Lost {
        /// The queue's number.
        queue: u16,
        /// The event, and its likely cause.
        why: String,
    },
    /// The request to read or write is impossible.
    Request(String),
    /// The operating system's error.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Name(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Buffer(error) => error.fmt(f),
            Self::Connect {
                queue,
                at,
                refusal,
                source,
            } => {
                write!(f, "cannot connect queue {queue} to {at}: {source}")?;
                match refusal {
                    Some(refusal) => write!(f, " (the target says: {refusal})"),
                    None => Ok(()),
                }
            }
            Self::NoSuchSubsystem { at, subsystem } => write!(
                f,
                "no such subsystem: {at} does not have {subsystem}. `nvme-rdma discover nvme://{at}` \
                 lists those that are there"
            ),
            Self::Command { command, status } => {
                write!(f, "the controller answered {command} with: {status}")
            }
            Self::Incompatible(what) => write!(f, "this controller cannot be used: {what}"),
            Self::NotReady { what, after } => {
                write!(f, "the controller did not {what} within {after:?}")
            }
            Self::Lost { queue, why } => write!(f, "queue {queue} has failed: {why}"),
            Self::Request(what) => f.write_str(what),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source, .. } => Some(source),
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident,)*) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Self {
                Self::$variant(source)
            }
        })*
    };
}

from! {
    AddressError => Address,
    NqnError => Name,
    OpenError => Device,
    RegionError => Memory,
    BufferRangeError => Buffer,
    io::Error => System,
}

//! A socket of either type.

use crate::datagram::Datagram;
use crate::error::Error;
use crate::nic::Nic;
use crate::socket::Socket;
use nix::errno::Errno;
use roce_verbs::device::Driving;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

/// A stream or datagram socket.
#[derive(Clone)]
pub(crate) enum AnySocket {
    Stream(Arc<Socket>),
    Datagram(Arc<Datagram>),
}

/// The same expression for a socket of either type.
macro_rules! either {
    ($either:expr, $socket:ident => $value:expr) => {
        match $either {
            $crate::any::AnySocket::Stream($socket) => $value,
            $crate::any::AnySocket::Datagram($socket) => $value,
        }
    };
}
pub(crate) use either;

impl AnySocket {
    pub(crate) fn fd(&self) -> RawFd {
        either!(self, socket => socket.fd())
    }

    /// # Errors
    /// EOPNOTSUPP for a datagram socket.
    pub(crate) fn stream(&self) -> Result<&Arc<Socket>, Error> {
        match self {
            Self::Stream(socket) => Ok(socket),
            Self::Datagram(_) => {
                let what = "the call needs a stream socket, and this is a datagram socket";
                Err(Error::new(Errno::EOPNOTSUPP, what))
            }
        }
    }

    /// # Errors
    /// EOPNOTSUPP for a stream socket.
    pub(crate) fn datagram(&self) -> Result<&Arc<Datagram>, Error> {
        match self {
            Self::Datagram(socket) => Ok(socket),
            Self::Stream(_) => {
                let what = "the call needs a datagram socket, and this is a stream socket";
                Err(Error::new(Errno::EOPNOTSUPP, what))
            }
        }
    }

    /// For `poll`: handles pending events, after driving each NIC that `drive` selects. Returns whether
    /// there were any.
    pub(crate) fn progress(&self, drive: impl FnMut(*const Nic) -> bool) -> bool {
        either!(self, socket => socket.progress(drive))
    }

    /// For `poll`: the ready events among `events`.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        either!(self, socket => socket.ready(events))
    }

    /// For `poll`: called before the thread sleeps until one of these descriptors is readable, or until
    /// the returned time. Must be followed by [`AnySocket::end_sleep`].
    pub(crate) fn begin_sleep(&self, each: impl FnMut(RawFd)) -> Option<Instant> {
        either!(self, socket => socket.begin_sleep(each))
    }

    /// For `poll`: see [`Awaited::drive_while_waiting`](crate::shared::Awaited::drive_while_waiting).
    pub(crate) fn drive_while_waiting(&self) -> Option<Driving> {
        match self {
            Self::Stream(socket) => socket.drive_while_waiting(),
            Self::Datagram(_) => None,
        }
    }

    /// For `poll`: called after the thread has slept.
    pub(crate) fn end_sleep(&self) {
        either!(self, socket => socket.end_sleep())
    }
}

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

impl AnySocket {
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Self::Stream(socket) => socket.fd(),
            Self::Datagram(socket) => socket.fd(),
        }
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
        match self {
            Self::Stream(socket) => socket.progress(drive),
            Self::Datagram(socket) => socket.progress(drive),
        }
    }

    /// For `poll`: the ready events among `events`.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        match self {
            Self::Stream(socket) => socket.ready(events),
            Self::Datagram(socket) => socket.ready(events),
        }
    }

    /// For `poll`: called before the thread sleeps until one of these descriptors is readable, or until
    /// the returned time. Must be followed by [`AnySocket::end_sleep`].
    pub(crate) fn begin_sleep(&self, each: impl FnMut(RawFd)) -> Option<Instant> {
        match self {
            Self::Stream(socket) => socket.begin_sleep(each),
            Self::Datagram(socket) => socket.begin_sleep(each),
        }
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
        match self {
            Self::Stream(socket) => socket.end_sleep(),
            Self::Datagram(socket) => socket.end_sleep(),
        }
    }
}

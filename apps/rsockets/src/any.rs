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

/// A socket: of a stream, or of datagrams.
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
    /// EOPNOTSUPP for a socket of datagrams.
    pub(crate) fn stream(&self) -> Result<&Arc<Socket>, Error> {
        match self {
            Self::Stream(socket) => Ok(socket),
            Self::Datagram(_) => {
                let what = "the call is for streams, and the socket for datagrams";
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
                let what = "the call is for datagrams, and the socket for a stream";
                Err(Error::new(Errno::EOPNOTSUPP, what))
            }
        }
    }

    /// For `poll`: handles what has happened. Lets each of the socket's NICs work first for which
    /// `drive` says so. Returns whether there was anything.
    pub(crate) fn progress(&self, drive: impl FnMut(*const Nic) -> bool) -> bool {
        match self {
            Self::Stream(socket) => socket.progress(drive),
            Self::Datagram(socket) => socket.progress(drive),
        }
    }

    /// For `poll`: what the program need not wait for.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        match self {
            Self::Stream(socket) => socket.ready(events),
            Self::Datagram(socket) => socket.ready(events),
        }
    }

    /// For `poll`: the thread is about to sleep until one of these descriptors is readable, or until
    /// the time that this returns. It then calls [`AnySocket::end_sleep`].
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

    /// For `poll`: the thread has slept.
    pub(crate) fn end_sleep(&self) {
        match self {
            Self::Stream(socket) => socket.end_sleep(),
            Self::Datagram(socket) => socket.end_sleep(),
        }
    }
}

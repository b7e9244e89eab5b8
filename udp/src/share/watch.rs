//! Watches another process of this host that shares an address.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_stack::QpnRange;
use roce_trust::{OwnUser, Peer, peer};

use super::message;
use super::names::SharedAddress;
use super::owned_names::OwnedNames;

/// The maximum number of messages to read in one call.
const MAX_MESSAGES: u32 = 16;

/// The maximum number of reconnections to a process that hangs up but keeps its name.
const MAX_RECONNECTS: u32 = 5;

/// Watches a process of this user, in this network namespace, that has a part of the QPNs at an
/// address. The watch's descriptor becomes readable when [`PeerWatch::is_gone`] should be called.
///
/// The process listens at a name that vanishes when the process ends or is killed. A connection to
/// that name closes at the same time.
#[derive(Debug)]
pub struct PeerWatch {
    name: String,
    stream: UnixStream,
    pid: i32,
    reconnects_left: u32,
}

impl PeerWatch {
    /// Watches the process that has this part at this address now. Returns `None` if there is none,
    /// or if it belongs to another user and so can't be trusted. The interface's index matters only
    /// for link-local addresses.
    ///
    /// # Errors
    /// If the system is out of file descriptors, or the process accepts no connections.
    pub fn start(
        address: IpAddr,
        interface_index: u32,
        part: QpnRange,
    ) -> io::Result<Option<Self>> {
        let name = SharedAddress::new(address, interface_index).member(part);
        let Some((stream, pid)) = connect(&name, OwnUser::now())? else {
            return Ok(None);
        };
        Ok(Some(Self {
            name,
            stream,
            pid,
            reconnects_left: MAX_RECONNECTS,
        }))
    }

    /// Whether the process has ended or has closed the device.
    ///
    /// # Errors
    /// If the state can't be determined, or the process keeps hanging up or accepts no connections.
    pub fn is_gone(&mut self) -> io::Result<bool> {
        while has_hung_up(&self.stream)? {
            // Only the name counts: a process may refuse this connection, or may close its
            // descriptors in any order while it ends.
            match connect(&self.name, OwnUser::now())? {
                Some((stream, pid)) if pid == self.pid && self.reconnects_left > 0 => {
                    self.reconnects_left -= 1;
                    self.stream = stream;
                }
                Some((_, pid)) if pid == self.pid => {
                    return Err(io::Error::other("the process keeps hanging up"));
                }
                // Another process has taken the name.
                Some(_) | None => return Ok(true),
            }
        }
        Ok(false)
    }
}

impl AsFd for PeerWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Connects to the process that has a name, if it belongs to `user`. Also returns its process ID.
fn connect(name: &str, user: OwnUser) -> io::Result<Option<(UnixStream, i32)>> {
    let stream = match OwnedNames::new().variants().connect(name) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(true)?;
    let Peer { pid, user: found } = peer(&stream)?;
    Ok(user.is(found).then_some((stream, pid)))
}

/// Whether the other end has closed the connection. Discards waiting messages.
pub(super) fn has_hung_up(stream: &UnixStream) -> io::Result<bool> {
    for _ in 0..MAX_MESSAGES {
        let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO)? == 0 {
            return Ok(false);
        }
        match message::receive(stream) {
            Ok(Some(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Ok(None) | Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn only_a_process_of_the_same_user_is_watched() {
        let name = format!("{}/watch/{}", names::PREFIX, std::process::id());
        let _listener = names::listen(&name).expect("nobody else has the name");
        let own = OwnUser::now();
        let found = connect(&name, own).expect("it listens");
        let pid = found.map(|(_, pid)| pid.cast_unsigned());
        assert_eq!(pid, Some(std::process::id()));
        for user in [
            OwnUser::new(own.id() + 1, None),
            OwnUser::new(own.id(), Some(own.id())),
        ] {
            let found = connect(&name, user).expect("it listens");
            assert!(found.is_none(), "{user:?}");
        }
    }

    /// A member that hangs up, and keeps its name, has not ended.
    #[test]
    fn a_process_is_gone_when_its_name_is() {
        let name = format!("{}/gone/{}", names::PREFIX, std::process::id());
        let listener = names::listen(&name).expect("nobody else has the name");
        let found = connect(&name, OwnUser::now()).expect("it listens");
        let (stream, pid) = found.expect("of this user");
        let mut watch = PeerWatch {
            name,
            stream,
            pid,
            reconnects_left: MAX_RECONNECTS,
        };
        assert!(!watch.is_gone().expect("it is there"));
        for _ in 0..MAX_RECONNECTS {
            drop(listener.accept().expect("connected"));
            assert!(!watch.is_gone().expect("it has its name"));
        }
        drop(listener.accept().expect("connected"));
        assert!(watch.is_gone().is_err(), "it keeps hanging up");
        drop(listener);
        assert!(watch.is_gone().expect("nobody has the name"));
    }
}

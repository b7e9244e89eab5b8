//! How programs on a host talk to the fabric: a socket without a file, which exists in the host's
//! network namespace, and so for its programs alone.

use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, getsockopt, listen as listen_on, recvmsg, sendmsg, socket,
    sockopt,
};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The name of the socket.
const NAME: &[u8] = b"roce-fabric";

/// The most bytes of a message.
const MAX_BYTES: usize = 128 << 10;

/// What a program asks for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// To run a command on a host, with the standard input, output and error that come along.
    Run {
        /// The name of the host.
        host: String,
        /// The program and its arguments.
        words: Vec<String>,
        /// The folder in which it starts.
        folder: String,
    },
}

/// What the fabric answers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The command has ended, with this exit code.
    Ended(u8),
    /// It is not possible.
    Failed(String),
}

fn address() -> io::Result<UnixAddr> {
    Ok(UnixAddr::new_abstract(NAME)?)
}

fn new_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Listens in the network namespace of this thread.
pub(crate) fn listen() -> io::Result<OwnedFd> {
    let listener = new_socket()?;
    bind(listener.as_raw_fd(), &address()?)?;
    listen_on(&listener, Backlog::MAXCONN)?;
    Ok(listener)
}

/// The next program that wants something. Programs of other users are turned away.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    loop {
        let accepted = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
        // SAFETY: the call has just returned this descriptor, which is nobody else's.
        let accepted = unsafe { OwnedFd::from_raw_fd(accepted) };
        let peer = getsockopt(&accepted, sockopt::PeerCredentials)?;
        if peer.uid() == geteuid().as_raw() || peer.uid() == 0 {
            return Ok(accepted);
        }
    }
}

/// Asks the fabric of the host that this program runs on. Standard input, output and error go along.
///
/// # Errors
/// If this program does not run on a host of a fabric, or the fabric has ended.
pub fn ask(request: &Request) -> io::Result<Answer> {
    let socket = new_socket()?;
    connect(socket.as_raw_fd(), &address()?).map_err(|error| match error {
        nix::errno::Errno::ECONNREFUSED => io::Error::other(
            "this is not a host of a fabric: start a program on one by `roce fabric -- PROGRAM`",
        ),
        error => error.into(),
    })?;
    send(&socket, request, &[0, 1, 2])?;
    receive(&socket).map(|(answer, _)| answer)
}

pub(crate) fn send(
    socket: &OwnedFd,
    message: &impl Serialize,
    descriptors: &[RawFd],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_BYTES {
        let len = text.len();
        return Err(io::Error::other(format!(
            "the command has {len} bytes, and at most {MAX_BYTES} can be passed on"
        )));
    }
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control: &[ControlMessage<'_>] = match descriptors {
        [] => &[],
        _ => &rights,
    };
    let parts = [IoSlice::new(&text)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &parts, control, flags, None)?;
    Ok(())
}

/// The next message, and the descriptors that came with it.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(
    socket: &OwnedFd,
) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut text = vec![0; MAX_BYTES];
    let mut space = nix::cmsg_space!([RawFd; 3]);
    let (len, descriptors) = {
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let mut descriptors = Vec::new();
        for message in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(found) = message {
                // SAFETY: the kernel has just made these descriptors, which are nobody else's.
                let owned = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
                descriptors.extend(found.into_iter().map(owned));
            }
        }
        (got.bytes, descriptors)
    };
    if len == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((serde_json::from_slice(&text[..len])?, descriptors))
}

/// Waits until the other end is gone.
pub(crate) fn wait_for_end(socket: BorrowedFd<'_>) {
    let mut byte = [0];
    while let Ok(1..) = nix::sys::socket::recv(socket.as_raw_fd(), &mut byte, MsgFlags::empty()) {}
}

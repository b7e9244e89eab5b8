//! How programs on a host talk to the fabric: a socket without a file, which exists in the host's
//! network namespace, and so for its programs alone.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, listen as listen_on, recvmsg, sendmsg, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};
use roce_trust::{NamedSocket, OwnUser, UnixSockets, peer};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The name of the socket.
const NAME: &[u8] = b"roce-fabric";

/// The most bytes of a message.
const MAX_BYTES: usize = 128 << 10;

/// How long a program waits for the fabric to take note of it.
const PATIENCE: TimeVal = TimeVal::new(2, 0);

/// A program's request.
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
    /// A change of the network or a host: `h1-s1 down`, say.
    Change {
        /// As [`roce_sim::network`] lists them.
        text: String,
    },
    /// The state of the network.
    State,
}

/// The fabric's answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The command has ended, with this exit code.
    Ended(u8),
    /// It is done; what there is to say of it.
    Done(String),
    /// It is not possible.
    Failed(String),
}

fn address() -> io::Result<UnixAddr> {
    Ok(UnixAddr::new_abstract(NAME)?)
}

/// The socket of the fabric that this process starts, for programs outside of it.
fn outer_address(pid: u32) -> io::Result<UnixAddr> {
    Ok(UnixAddr::new_abstract(
        format!("roce-fabric-{pid}").as_bytes(),
    )?)
}

/// Listens for programs outside of the fabric that this process is about to start.
///
/// # Errors
/// If the system has no more sockets, or another user has the name.
pub fn door() -> io::Result<OwnedFd> {
    listen_at(&outer_address(std::process::id())?)
}

/// The fabrics that programs outside can ask, by the process IDs of the commands that started them.
/// Any user can take such a name: those of other users are left out, as far as the kernel says whose
/// they are.
fn fabrics() -> Vec<u32> {
    const PREFIX: &str = "roce-fabric-";
    let user = OwnUser::now();
    let sockets = match UnixSockets::open().and_then(|kernel| kernel.list(PREFIX)) {
        Ok(sockets) => {
            let is_own = |socket: &NamedSocket| socket.uid.is_none_or(|uid| user.is_or_root(uid));
            let own = sockets.into_iter().filter(is_own);
            own.map(|socket| socket.name).collect()
        }
        // A kernel without `sock_diag` has a table without owners.
        Err(_) => {
            let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
            let name = |line: &str| Some(line.rsplit_once('@')?.1.to_owned());
            table.lines().filter_map(name).collect::<Vec<_>>()
        }
    };
    let pid = |name: &String| name.strip_prefix(PREFIX)?.parse().ok();
    let mut found: Vec<u32> = sockets.iter().filter_map(pid).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn new_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Listens in the network namespace of this thread.
pub(crate) fn listen() -> io::Result<OwnedFd> {
    listen_at(&address()?)
}

fn listen_at(address: &UnixAddr) -> io::Result<OwnedFd> {
    let listener = new_socket()?;
    bind(listener.as_raw_fd(), address)?;
    listen_on(&listener, Backlog::MAXCONN)?;
    Ok(listener)
}

/// The next program that wants something. Programs of other users are turned away.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    loop {
        let accepted = match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(accepted) => accepted,
            // The program has given up, or a signal came.
            Err(Errno::ECONNABORTED | Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        // SAFETY: the call has just returned this descriptor, which is nobody else's.
        let accepted = unsafe { OwnedFd::from_raw_fd(accepted) };
        if OwnUser::now().is_or_root(peer(&accepted)?.user) {
            return Ok(accepted);
        }
    }
}

/// Asks the fabric of the host that this program runs on; or, outside of any, the fabric that was
/// started by the process `pid`, or else the only one. Standard input, output and error go along.
///
/// # Errors
/// If there is no such fabric, or it has ended.
pub fn ask(pid: Option<u32>, request: &Request) -> io::Result<Answer> {
    let socket = reach(pid)?;
    send(&socket, request, &[0, 1, 2])?;
    receive(&socket).map(|(answer, _)| answer)
}

/// A fabric's socket. Any user can give a socket its name, and would get our standard input and
/// output: so the owner counts.
fn reach(pid: Option<u32>) -> io::Result<OwnedFd> {
    if pid.is_none()
        && let Ok(socket) = connected(&address()?)
        && OwnUser::now().is_or_root(peer(&socket)?.user)
    {
        return Ok(socket);
    }
    let pid = match (pid, &fabrics()[..]) {
        (Some(pid), _) | (None, &[pid]) => pid,
        (None, []) => {
            return Err(io::Error::other(
                "there is no fabric here: start one by `roce fabric`",
            ));
        }
        (None, several) => {
            return Err(io::Error::other(format!(
                "there are several fabrics: choose one by --fabric and a number of {several:?}"
            )));
        }
    };
    let socket = connected(&outer_address(pid)?)
        .map_err(|error| io::Error::other(format!("reach the fabric {pid}: {error}")))?;
    let (user, owner) = (OwnUser::now(), peer(&socket)?.user);
    match user.is_or_root(owner) {
        true => Ok(socket),
        false => Err(io::Error::other(format!(
            "the fabric {pid} belongs to {}: ask it as that user",
            user.describe(owner)
        ))),
    }
}

/// Connects, and waits at most [`PATIENCE`] for that: any user can take a name and accept nothing.
fn connected(address: &UnixAddr) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    setsockopt(&socket, sockopt::SendTimeout, &PATIENCE)?;
    connect(socket.as_raw_fd(), address)?;
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::zero())?;
    Ok(socket)
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
        // They are cut off if there were more descriptors than this process may have.
        let messages = got.cmsgs().map_err(|_| {
            io::Error::other("the fabric has too many descriptors open at this moment")
        })?;
        for message in messages {
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

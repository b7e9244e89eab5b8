//! The socket calls. Each looks the socket up by its descriptor.

pub use crate::datagram::Received;
pub use crate::options::Number;
pub use crate::socket::{Domain, ReceiveFlags, Route, Shutdown, Time};

use crate::any::{AnySocket, either};
use crate::datagram::Datagram;
use crate::error::{Error, OrErrno};
use crate::socket::Socket;
use crate::table::{find, lookup, table};
use nix::errno::Errno;
use roce_verbs::memory::{Access, Memory, Registration};
use roce_verbs::qp::PathMtu;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

/// Creates a stream socket and returns its descriptor.
///
/// # Errors
/// EMFILE if the process has no descriptor left.
pub fn socket(domain: Domain) -> Result<RawFd, Error> {
    Ok(table().insert(AnySocket::Stream(Socket::new(domain)?)))
}

/// Creates a datagram socket and returns its descriptor.
///
/// # Errors
/// EMFILE if the process has no descriptor left.
pub fn datagram_socket(domain: Domain) -> Result<RawFd, Error> {
    Ok(table().insert(AnySocket::Datagram(Datagram::new(domain)?)))
}

/// Whether a descriptor belongs to an rsocket.
pub fn is_socket(fd: RawFd) -> bool {
    lookup(fd).is_some()
}

/// Whether a descriptor belongs to a datagram rsocket.
pub fn is_datagram(fd: RawFd) -> bool {
    matches!(lookup(fd), Some(AnySocket::Datagram(_)))
}

/// Binds a socket to an address and a port; port 0 selects a free one. Streams use RDMA's TCP port
/// space, datagrams the system's UDP ports.
///
/// # Errors
/// EADDRINUSE if the port is taken, EADDRNOTAVAIL if no device has the address, EINVAL if the socket
/// is already bound.
pub fn bind(fd: RawFd, address: SocketAddr) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.bind(address))
}

/// Starts accepting connections. While more than `backlog` connections wait for [`accept`], further
/// requests wait. The library clamps `backlog` to what the process's descriptors allow, and uses that
/// maximum if it is not positive.
///
/// # Errors
/// ENODEV if there is no device, EINVAL if the socket is connected.
pub fn listen(fd: RawFd, backlog: i32) -> Result<(), Error> {
    find(fd)?.stream()?.listen(backlog)
}

/// Accepts a connection; blocks until there is one.
///
/// # Errors
/// EAGAIN if the socket is non-blocking and there is none, EINVAL if it does not listen.
pub fn accept(fd: RawFd) -> Result<(RawFd, SocketAddr), Error> {
    let socket = find(fd)?.stream()?.accept()?;
    let peer = socket.peer_name()?;
    Ok((table().insert(AnySocket::Stream(socket)), peer))
}

/// Connects a socket. A datagram socket then sends to this peer and receives only from it.
///
/// # Errors
/// EINPROGRESS if the socket is non-blocking: it becomes writable when it is connected.
/// ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EADDRNOTAVAIL if no device leads to the address.
pub fn connect(fd: RawFd, remote: SocketAddr) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.connect(remote))
}

/// Disconnects a datagram socket.
///
/// # Errors
/// EOPNOTSUPP for a stream.
pub fn disconnect(fd: RawFd) -> Result<(), Error> {
    find(fd)?.datagram()?.disconnect()
}

/// Receives bytes and returns their number; 0 is the end of a stream. A datagram that does not fit is
/// truncated.
///
/// # Errors
/// EAGAIN, ENOTCONN, and the error that the connection has failed with.
pub fn receive(
    fd: RawFd,
    slices: &mut [IoSliceMut<'_>],
    flags: ReceiveFlags,
) -> Result<usize, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => socket.receive(slices, flags),
        AnySocket::Datagram(socket) => Ok(socket.receive(slices, flags)?.len),
    }
}

/// Receives bytes and the sender's address.
///
/// # Errors
/// As for [`receive`].
pub fn receive_from(
    fd: RawFd,
    slices: &mut [IoSliceMut<'_>],
    flags: ReceiveFlags,
) -> Result<Received, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => {
            let len = socket.receive(slices, flags)?;
            let from = Some(socket.peer_name()?);
            let whole = len;
            Ok(Received { len, whole, from })
        }
        AnySocket::Datagram(socket) => socket.receive(slices, flags),
    }
}

/// Sends bytes and returns their number: all of them if the socket is blocking.
///
/// # Errors
/// EAGAIN, ENOTCONN, EPIPE if the stream is shut down, and the error that the connection has failed
/// with.
pub fn send(fd: RawFd, slices: &[IoSlice<'_>], dont_wait: bool) -> Result<usize, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => socket.send(slices, dont_wait),
        AnySocket::Datagram(socket) => socket.send(slices, None, dont_wait),
    }
}

/// Sends a datagram to a peer.
///
/// # Errors
/// EISCONN for a stream, EMSGSIZE if the datagram is too long, EADDRNOTAVAIL if no device leads to
/// the address, EAGAIN.
pub fn send_to(
    fd: RawFd,
    slices: &[IoSlice<'_>],
    to: SocketAddr,
    dont_wait: bool,
) -> Result<usize, Error> {
    match find(fd)? {
        AnySocket::Stream(_) => Err(Errno::EISCONN.into()),
        AnySocket::Datagram(socket) => socket.send(slices, Some(to), dont_wait),
    }
}

/// Shuts down one half of a connection, or both.
///
/// # Errors
/// ENOTCONN.
pub fn shutdown(fd: RawFd, which: Shutdown) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.shut_down(which))
}

/// Closes a socket. Bytes in flight still reach the peer.
///
/// # Errors
/// EBADF.
pub fn close(fd: RawFd) -> Result<(), Error> {
    let socket = table().remove(fd).ok_or(Errno::EBADF)?;
    either!(socket, socket => socket.close());
    Ok(())
}

/// The local address of a socket.
///
/// # Errors
/// EBADF.
pub fn local_name(fd: RawFd) -> Result<SocketAddr, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => Ok(socket.local_name()),
        AnySocket::Datagram(socket) => socket.local_name(),
    }
}

/// The address of the peer.
///
/// # Errors
/// ENOTCONN.
pub fn peer_name(fd: RawFd) -> Result<SocketAddr, Error> {
    either!(find(fd)?, socket => socket.peer_name())
}

/// Whether calls on the socket fail with EAGAIN instead of blocking.
///
/// # Errors
/// EBADF.
pub fn is_nonblocking(fd: RawFd) -> Result<bool, Error> {
    either!(find(fd)?, socket => Ok(socket.is_nonblocking()))
}

/// Sets whether calls on the socket fail with EAGAIN instead of blocking.
///
/// # Errors
/// EBADF.
pub fn set_nonblocking(fd: RawFd, nonblocking: bool) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.set_nonblocking(nonblocking));
    Ok(())
}

/// Sets an option.
///
/// # Errors
/// EINVAL if the value is out of range or the socket is already connected.
pub fn set_number(fd: RawFd, option: Number, value: i32) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.set_number(option, value))
}

/// An option's value.
///
/// # Errors
/// EBADF.
pub fn number(fd: RawFd, option: Number) -> Result<i32, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => Ok(socket.number(option)),
        AnySocket::Datagram(socket) => socket.number(option),
    }
}

/// Sets a timeout. `None` means no limit, or turns SO_LINGER off.
///
/// # Errors
/// EBADF.
pub fn set_time(fd: RawFd, option: Time, time: Option<Duration>) -> Result<(), Error> {
    either!(find(fd)?, socket => socket.set_time(option, time));
    Ok(())
}

/// A timeout.
///
/// # Errors
/// EBADF.
pub fn time(fd: RawFd, option: Time) -> Result<Option<Duration>, Error> {
    either!(find(fd)?, socket => Ok(socket.time(option)))
}

/// Sets the path that a stream socket will connect along.
///
/// # Errors
/// EINVAL if the socket is already connected, or the ends of the path differ in address family.
pub fn set_route(fd: RawFd, route: Route) -> Result<(), Error> {
    find(fd)?.stream()?.set_route(route)
}

/// The path of a connection, and the largest path MTU of its interface; `None` if the socket is not
/// connected.
///
/// # Errors
/// EBADF.
pub fn route(fd: RawFd) -> Result<Option<(Route, PathMtu)>, Error> {
    Ok(find(fd)?.stream()?.route())
}

/// Takes the pending error of a socket.
///
/// # Errors
/// EBADF.
pub fn take_error(fd: RawFd) -> Result<Option<Errno>, Error> {
    either!(find(fd)?, socket => Ok(socket.take_error()))
}

/// Whether a socket listens.
///
/// # Errors
/// EBADF.
pub fn is_listening(fd: RawFd) -> Result<bool, Error> {
    match find(fd)? {
        AnySocket::Stream(socket) => Ok(socket.is_listening()),
        AnySocket::Datagram(_) => Ok(false),
    }
}

/// The number of bytes that can be received without blocking: from a stream, or the first datagram.
///
/// # Errors
/// EBADF.
pub fn unread(fd: RawFd) -> Result<usize, Error> {
    either!(find(fd)?, socket => Ok(socket.unread()))
}

/// Maps `len` bytes at `address` to an offset. With `remote`, the peer may write there.
///
/// # Errors
/// ENOMEM if the peer takes no further mapping, ENOTCONN, EINVAL if the memory can't be registered.
///
/// # Safety
/// The memory must stay mapped, and writable if `remote`, until it is unmapped by [`unmap`] or the
/// socket is closed, and the program must expect that the peer changes it at any time.
pub unsafe fn map(
    fd: RawFd,
    address: *mut u8,
    len: usize,
    offset: u64,
    remote: bool,
) -> Result<(), Error> {
    let access = if remote {
        Access::LOCAL_WRITE | Access::REMOTE_WRITE
    } else {
        Access::LOCAL_WRITE
    };
    let register = |pd: &roce_verbs::ProtectionDomain| -> Result<Registration, Error> {
        // SAFETY: the caller keeps the memory, as this function demands.
        let memory = unsafe { Memory::foreign(address, len as u64) };
        pd.register_memory(memory, None, access)
            .or_errno(Errno::EINVAL)
    };
    find(fd)?.stream()?.map(register, offset, remote)
}

/// Removes the mapping of `len` bytes at `address`.
///
/// # Errors
/// EINVAL if there is none.
pub fn unmap(fd: RawFd, address: *mut u8, len: usize) -> Result<(), Error> {
    find(fd)?.stream()?.unmap(address as u64, len)
}

/// Writes bytes into memory that the peer has mapped to an offset and returns their number, which is
/// smaller if the mapping ends first.
///
/// # Errors
/// As for [`send`].
pub fn write_mapped(
    fd: RawFd,
    slices: &[IoSlice<'_>],
    offset: u64,
    dont_wait: bool,
) -> Result<usize, Error> {
    find(fd)?.stream()?.write_mapped(slices, offset, dont_wait)
}

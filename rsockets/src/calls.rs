//! The calls, by descriptor.

pub use crate::socket::{Domain, Number, ReceiveFlags, Shutdown, Time};

use crate::error::{Error, OrErrno};
use crate::socket::Socket;
use crate::table::{find, lookup, table};
use nix::errno::Errno;
use roce_verbs::memory::{Access, Memory, Registration};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

/// Makes a stream socket, and returns its descriptor.
///
/// # Errors
/// EMFILE if the process has no descriptor left.
pub fn socket(domain: Domain) -> Result<RawFd, Error> {
    Ok(table().insert(Socket::new(domain)?))
}

/// Whether a descriptor is that of an rsocket.
pub fn is_socket(fd: RawFd) -> bool {
    lookup(fd).is_some()
}

/// Binds a socket to an address and a port of the TCP port space of RDMA; port 0 selects a free one.
///
/// # Errors
/// EADDRINUSE if the port is taken, EADDRNOTAVAIL if no device has the address, EINVAL if the socket
/// is bound.
pub fn bind(fd: RawFd, address: SocketAddr) -> Result<(), Error> {
    find(fd)?.bind(address)
}

/// Accepts connections from now on.
///
/// # Errors
/// ENODEV if there is no device, EINVAL if the socket is connected.
pub fn listen(fd: RawFd) -> Result<(), Error> {
    find(fd)?.listen()
}

/// Takes a connection that a peer has asked for, and waits for one if there is none.
///
/// # Errors
/// EAGAIN if the socket is non-blocking and there is none, EINVAL if it does not listen.
pub fn accept(fd: RawFd) -> Result<(RawFd, SocketAddr), Error> {
    let socket = find(fd)?.accept()?;
    let peer = socket.peer_name()?;
    Ok((table().insert(socket), peer))
}

/// Connects a socket.
///
/// # Errors
/// EINPROGRESS if the socket is non-blocking: it becomes writable when it is connected.
/// ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EADDRNOTAVAIL if no device leads to the address.
pub fn connect(fd: RawFd, remote: SocketAddr) -> Result<(), Error> {
    find(fd)?.connect(remote)
}

/// Receives bytes, and returns their number; 0 means that the peer sends no more.
///
/// # Errors
/// EAGAIN, ENOTCONN, and what the connection has failed with.
pub fn receive(
    fd: RawFd,
    slices: &mut [IoSliceMut<'_>],
    flags: ReceiveFlags,
) -> Result<usize, Error> {
    find(fd)?.receive(slices, flags)
}

/// Sends bytes, and returns their number: all of them, if the socket is blocking.
///
/// # Errors
/// EAGAIN, ENOTCONN, EPIPE if the stream is shut, and what the connection has failed with.
pub fn send(fd: RawFd, slices: &[IoSlice<'_>], dont_wait: bool) -> Result<usize, Error> {
    find(fd)?.send(slices, dont_wait)
}

/// Ends one half of a connection, or both.
///
/// # Errors
/// ENOTCONN.
pub fn shutdown(fd: RawFd, which: Shutdown) -> Result<(), Error> {
    find(fd)?.shut_down(which)
}

/// Closes a socket. What was sent still reaches the peer.
///
/// # Errors
/// EBADF.
pub fn close(fd: RawFd) -> Result<(), Error> {
    let socket = table().remove(fd).ok_or(Errno::EBADF)?;
    socket.close();
    Ok(())
}

/// The address of a socket.
///
/// # Errors
/// EBADF.
pub fn local_name(fd: RawFd) -> Result<SocketAddr, Error> {
    Ok(find(fd)?.local_name())
}

/// The address of the peer.
///
/// # Errors
/// ENOTCONN.
pub fn peer_name(fd: RawFd) -> Result<SocketAddr, Error> {
    find(fd)?.peer_name()
}

/// Whether calls on the socket return EAGAIN instead of waiting.
///
/// # Errors
/// EBADF.
pub fn is_nonblocking(fd: RawFd) -> Result<bool, Error> {
    Ok(find(fd)?.is_nonblocking())
}

/// Sets whether calls on the socket return EAGAIN instead of waiting.
///
/// # Errors
/// EBADF.
pub fn set_nonblocking(fd: RawFd, nonblocking: bool) -> Result<(), Error> {
    find(fd)?.set_nonblocking(nonblocking);
    Ok(())
}

/// Sets an option.
///
/// # Errors
/// EINVAL if the value is out of range, or it is too late.
pub fn set_number(fd: RawFd, option: Number, value: i32) -> Result<(), Error> {
    find(fd)?.set_number(option, value)
}

/// An option's value.
///
/// # Errors
/// EBADF.
pub fn number(fd: RawFd, option: Number) -> Result<i32, Error> {
    Ok(find(fd)?.number(option))
}

/// Sets a time; `None` means no limit, or that SO_LINGER is off.
///
/// # Errors
/// EBADF.
pub fn set_time(fd: RawFd, option: Time, time: Option<Duration>) -> Result<(), Error> {
    find(fd)?.set_time(option, time);
    Ok(())
}

/// A time that was set.
///
/// # Errors
/// EBADF.
pub fn time(fd: RawFd, option: Time) -> Result<Option<Duration>, Error> {
    Ok(find(fd)?.time(option))
}

/// Takes the pending error of a socket.
///
/// # Errors
/// EBADF.
pub fn take_error(fd: RawFd) -> Result<Option<Errno>, Error> {
    Ok(find(fd)?.take_error())
}

/// Whether a socket listens.
///
/// # Errors
/// EBADF.
pub fn is_listening(fd: RawFd) -> Result<bool, Error> {
    Ok(find(fd)?.is_listening())
}

/// The number of bytes that can be received at once.
///
/// # Errors
/// EBADF.
pub fn unread(fd: RawFd) -> Result<usize, Error> {
    Ok(find(fd)?.unread())
}

/// Maps `len` bytes at `address` to an offset, so that the peer may write there. Without `remote`,
/// only this end uses them.
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
    find(fd)?.map(register, offset, remote)
}

/// Removes the mapping of `len` bytes at `address`.
///
/// # Errors
/// EINVAL if there is none.
pub fn unmap(fd: RawFd, address: *mut u8, len: usize) -> Result<(), Error> {
    find(fd)?.unmap(address as u64, len)
}

/// Sends bytes into memory that the peer has mapped to an offset, and returns their number: less
/// than all if the mapping ends before.
///
/// # Errors
/// As for [`send`].
pub fn write_mapped(
    fd: RawFd,
    slices: &[IoSlice<'_>],
    offset: u64,
    dont_wait: bool,
) -> Result<usize, Error> {
    find(fd)?.write_mapped(slices, offset, dont_wait)
}

//! Creates, opens and closes the sockets of a group.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use roce_stack::QpnRange;
use roce_wire::Qpn;
use socket2::{SockRef, Socket};

use super::table::Table;
use super::{sockets, steer};
use crate::bind::new_socket;
use crate::sys::options;

/// Creates the first socket of a group and binds it with `bind`. Fails if another socket is bound
/// to the address.
pub(super) fn first<E: From<io::Error>>(
    address: IpAddr,
    bind: impl Fn(&Socket) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let socket = new_socket(address)?;
    // The socket does not share the address yet, so `bind` fails if another socket is bound to it.
    bind(&socket)?;
    socket.set_reuse_port(true)?;
    // The kernel creates a group when the second socket is bound. Only then does it accept the
    // program, which stays attached after the second socket closes.
    let second = new_socket(address)?;
    second.set_reuse_port(true)?;
    steer::accept_nothing(second.as_fd())?;
    bind(&second)?;
    steer::attach(socket.as_fd(), &Table::default())?;
    Ok(socket.into())
}

/// Turns the only socket of an address into an ordinary socket, so that sharing costs nothing: the
/// kernel looks up no group, and runs no filter.
pub(super) fn stop_sharing(first: &OwnedFd) -> io::Result<()> {
    SockRef::from(first).set_reuse_port(false)
}

/// Undoes [`stop_sharing`] before another process joins. The group and its program still exist.
/// `is_used` says whether a process has the part of the first socket.
pub(super) fn start_sharing(first: &OwnedFd, is_used: bool) -> io::Result<()> {
    if is_used {
        steer::accept_only(first.as_fd(), QpnRange::of(Qpn::QP0))?;
    }
    SockRef::from(first).set_reuse_port(true)
}

/// Creates another socket, which becomes the last of the group. It does not accept packets yet.
pub(super) fn next<E: From<io::Error>>(
    address: IpAddr,
    bind: impl Fn(&Socket) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let socket = new_socket(address)?;
    socket.set_reuse_port(true)?;
    steer::accept_nothing(socket.as_fd())?;
    bind(&socket)?;
    Ok(socket.into())
}

/// Whether `held` contains all sockets bound to the address.
pub(super) fn is_complete(held: &[OwnedFd], address: IpAddr) -> io::Result<bool> {
    let mut bound: Vec<u64> = sockets::bound_to(address)?
        .iter()
        .map(|socket| socket.inode)
        .collect();
    let mut own = held
        .iter()
        .map(|socket| options::inode_of(socket.as_fd()))
        .collect::<io::Result<Vec<u64>>>()?;
    bound.sort_unstable();
    own.sort_unstable();
    Ok(bound == own)
}

/// Makes the socket of `part` accept the packets of that part. Discards waiting packets, which were
/// for a process that has ended.
pub(super) fn accept_part(socket: BorrowedFd<'_>, part: QpnRange) -> io::Result<()> {
    block_and_drain(socket)?;
    steer::accept_only(socket, part)
}

/// Makes the socket accept no packets, and discards the waiting ones.
pub(super) fn block_and_drain(socket: BorrowedFd<'_>) -> io::Result<()> {
    steer::accept_nothing(socket)?;
    options::discard_waiting(socket);
    Ok(())
}

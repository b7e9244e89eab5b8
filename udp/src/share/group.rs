//! The sockets of one address.

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

/// Creates the first socket of a group and binds it with `bind`. Fails if any other socket is bound
/// to the address.
pub(super) fn first<E: From<io::Error>>(
    address: IpAddr,
    bind: impl Fn(&Socket) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let socket = new_socket(address)?;
    // The socket does not share the address yet, so this fails if another one is bound.
    bind(&socket)?;
    socket.set_reuse_port(true)?;
    // The kernel makes a group when the second socket is bound. Only then does it accept the
    // program, which stays attached after the second socket closes.
    let second = new_socket(address)?;
    second.set_reuse_port(true)?;
    steer::nothing(second.as_fd())?;
    bind(&second)?;
    steer::by_table(socket.as_fd(), &Table::default())?;
    Ok(socket.into())
}

/// Makes the socket of a process that does not share its address an ordinary one, so that it pays
/// nothing for sharing: the kernel looks up no group, and no filter sees packets.
pub(super) fn be_alone(first: &OwnedFd) -> io::Result<()> {
    SockRef::from(first).set_reuse_port(false)
}

/// Undoes [`be_alone`] when another process joins. The group and its program still exist.
pub(super) fn stop_being_alone(first: &OwnedFd, is_used: bool) -> io::Result<()> {
    if is_used {
        steer::only_part(first.as_fd(), QpnRange::of(Qpn::QP0))?;
    }
    SockRef::from(first).set_reuse_port(true)
}

/// Creates another socket, which becomes the last of the group. It accepts no packets yet.
pub(super) fn next<E: From<io::Error>>(
    address: IpAddr,
    bind: impl Fn(&Socket) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let socket = new_socket(address)?;
    socket.set_reuse_port(true)?;
    steer::nothing(socket.as_fd())?;
    bind(&socket)?;
    Ok(socket.into())
}

/// Whether `held` are all the sockets bound to the address.
pub(super) fn is_whole(held: &[OwnedFd], address: IpAddr) -> io::Result<bool> {
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

/// Opens the socket of `part` to this process's packets. Discards waiting packets, which were for a
/// process that is gone.
pub(super) fn open_up(socket: BorrowedFd<'_>, part: QpnRange) -> io::Result<()> {
    close_down(socket)?;
    steer::only_part(socket, part)
}

/// Closes the socket to all packets, and discards those that wait in it.
pub(super) fn close_down(socket: BorrowedFd<'_>) -> io::Result<()> {
    steer::nothing(socket)?;
    options::discard_waiting(socket);
    Ok(())
}

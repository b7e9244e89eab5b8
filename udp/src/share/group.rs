//! The sockets of one address.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use roce_stack::QpnPart;
use roce_wire::Qpn;
use socket2::{SockRef, Socket};

use super::table::Table;
use super::{sockets, steer};
use crate::bind::new_socket;
use crate::sys::options;

/// The first socket of a group: the only one that is bound to the address, or it is an
/// error. `bind` binds it.
pub(super) fn first<E: From<io::Error>>(
    address: IpAddr,
    bind: impl Fn(&Socket) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let socket = new_socket(address)?;
    // As it shares with nobody yet, this fails if anybody else is bound.
    bind(&socket)?;
    socket.set_reuse_port(true)?;
    // The kernel makes a group of them when there is a second one; only then it takes the
    // program, which stays when the second one goes.
    let second = new_socket(address)?;
    second.set_reuse_port(true)?;
    steer::nothing(second.as_fd())?;
    bind(&second)?;
    steer::by_table(socket.as_fd(), &Table::default())?;
    Ok(socket.into())
}

/// A process that is alone has a socket like any other, so that it pays nothing for what
/// it does not use: the kernel looks for no group, and no filter looks at packets.
pub(super) fn be_alone(first: &OwnedFd) -> io::Result<()> {
    SockRef::from(first).set_reuse_port(false)
}

/// Ends that, from outside: somebody joins. The group and its program are there.
pub(super) fn stop_being_alone(first: &OwnedFd, is_used: bool) -> io::Result<()> {
    if is_used {
        steer::only_part(first.as_fd(), QpnPart::of(Qpn::QP0))?;
    }
    SockRef::from(first).set_reuse_port(true)
}

/// One more socket of a group, the last from now on. Nothing comes in yet.
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

/// Whether these are all sockets that are bound to the address.
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

/// Makes the socket of `part` this process's own: what waits in it was for somebody who is
/// gone.
pub(super) fn open_up(socket: BorrowedFd<'_>, part: QpnPart) -> io::Result<()> {
    close_down(socket)?;
    steer::only_part(socket, part)
}

/// Nothing comes into the socket any more, and nothing waits in it.
pub(super) fn close_down(socket: BorrowedFd<'_>) -> io::Result<()> {
    steer::nothing(socket)?;
    options::discard_waiting(socket);
    Ok(())
}

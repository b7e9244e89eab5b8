//! `accept`, over RDMA and TCP.

use crate::address::Address;
use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::socket::Socket;
use crate::{
    descriptors, epoll, io, listen, names, option_copy, poll_set, rdmacm, real, say, table,
};
use libc::{sockaddr, socklen_t};
use std::ffi::c_int;
use std::sync::Arc;

/// Accepts a connection over RDMA or TCP. Either way, it gets the kernel's next free descriptor.
///
/// # Safety
/// As for `accept`.
pub(crate) unsafe fn accept(
    fd: c_int,
    socket: &Arc<Socket>,
    address: *mut sockaddr,
    size: *mut socklen_t,
    flags: c_int,
) -> Outcome<c_int> {
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let until = Until::after_limit(socket.receive_limit());
    loop {
        let accepted = accept_rdma(socket);
        epoll::count_call(socket, &socket.reads);
        if let Some((rs, peer)) = accepted? {
            let new = adopt(fd, socket, rs, flags)?;
            if let Some(peer) = peer {
                // SAFETY: the caller promises the buffer.
                unsafe { peer.in_domain(socket.domain).write(address, size) };
            }
            return Ok(new);
        }
        // Another process may have cleared the flag before it executed a program.
        listen::set_kernel_nonblocking(fd, true)?;
        // SAFETY: the caller promises the buffer.
        match check(unsafe { real::accept4(fd, address, size, flags) }) {
            Err(error) if error.is_again() && !socket.is_nonblocking() => {}
            result => {
                return result
                    .map(descriptors::register_new)
                    .inspect(|fd| log_tcp(*fd));
            }
        }
        let mut fds = [socket.rs(), fd].map(|fd| poll_set::entry(fd, libc::POLLIN));
        io::wait_for_any(&mut fds, until, Until::NEVER)?;
    }
}

fn accept_rdma(socket: &Socket) -> Outcome<Option<(c_int, Option<Address>)>> {
    match rdmacm::accept(socket.rs()) {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error @ Errno(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
            Err(error)
        }
        // The connection ended before it was accepted.
        Err(_) => Ok(None),
    }
}

/// Creates a descriptor for a connection over RDMA.
fn adopt(fd: c_int, listener: &Arc<Socket>, rs: c_int, flags: c_int) -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let new = unsafe { real::socket(listener.domain, libc::SOCK_STREAM | flags, 0) };
    let new = descriptors::register_new(check(new).inspect_err(|_| rdmacm::close(rs))?);
    let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    say::log(|| match (rdmacm::own_name(rs), rdmacm::peer_name(rs)) {
        (Ok(own), Ok(peer)) => format!("{own} <- {peer} over RDMA"),
        _ => String::from("a connection over RDMA"),
    });
    let socket = Socket::from_accept(listener, is_nonblocking, rs);
    option_copy::copy_from_listener(fd, listener, new, &socket);
    table::insert_socket(new, Arc::new(socket));
    Ok(new)
}

fn log_tcp(fd: c_int) {
    say::log(
        || match (names::local_address(fd), names::peer_address(fd)) {
            (Ok(Some(own)), Ok(Some(peer))) => format!("{own} <- {peer} over TCP"),
            _ => String::from("a connection over TCP"),
        },
    );
}

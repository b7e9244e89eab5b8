//! `accept`: connections over RDMA and over TCP.

use crate::address::Address;
use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::signals;
use crate::socket::Socket;
use crate::{carried, descriptors, epoll, listen, names, rdmacm, real, say, table};
use libc::{pollfd, sockaddr, socklen_t};
use std::ffi::c_int;
use std::sync::Arc;

/// Accepts a connection at a socket that listens over RDMA. Its descriptor is the kernel's next one,
/// whichever way the connection takes.
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
        let accepted = over_rdma(socket);
        epoll::called(socket, &socket.reads);
        if let Some((rs, peer)) = accepted? {
            let made = adopt(fd, socket, rs, flags)?;
            if let Some(peer) = peer {
                // SAFETY: the caller promises the buffer.
                unsafe { peer.in_domain(socket.domain).write(address, size) };
            }
            return Ok(made);
        }
        // Another process may have cleared the flag, for a program that it executed.
        listen::set_kernel_nonblocking(fd, true)?;
        // SAFETY: the caller promises the buffer.
        match check(unsafe { real::accept4(fd, address, size, flags) }) {
            Err(error) if error.is_again() && !socket.is_nonblocking() => {}
            result => return result.map(descriptors::given).inspect(|fd| log_tcp(*fd)),
        }
        wait(fd, socket, until)?;
    }
}

fn over_rdma(socket: &Socket) -> Outcome<Option<(c_int, Option<Address>)>> {
    match rdmacm::accept(socket.rs()) {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error @ Errno(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
            Err(error)
        }
        // A connection that ended before it was accepted is none.
        Err(_) => Ok(None),
    }
}

fn wait(fd: c_int, socket: &Socket, until: Until) -> Outcome<()> {
    let of = |fd| pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [of(socket.rs()), of(fd)];
    match rdmacm::poll(&mut fds, until.left_milliseconds()) {
        Ok(0) if until.is_over() => Err(Errno(libc::EAGAIN)),
        Err(Errno(libc::EINTR)) if signals::restarts(until) => Ok(()),
        result => result.map(drop),
    }
}

/// Gives a connection over RDMA a descriptor.
fn adopt(fd: c_int, listener: &Arc<Socket>, rs: c_int, flags: c_int) -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let made = unsafe { real::socket(listener.domain, libc::SOCK_STREAM | flags, 0) };
    let made = descriptors::given(check(made).inspect_err(|_| rdmacm::close(rs))?);
    let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    say::log(|| match (rdmacm::own_name(rs), rdmacm::peer_name(rs)) {
        (Ok(own), Ok(peer)) => format!("{own} <- {peer} over RDMA"),
        _ => String::from("a connection over RDMA"),
    });
    let socket = Socket::accepted(listener, is_nonblocking, rs);
    carried::from_listener(fd, listener, made, &socket);
    table::insert_socket(made, Arc::new(socket));
    Ok(made)
}

fn log_tcp(fd: c_int) {
    say::log(
        || match (names::of_kernel(fd), names::of_kernels_peer(fd)) {
            (Ok(Some(own)), Ok(Some(peer))) => format!("{own} <- {peer} over TCP"),
            _ => String::from("a connection over TCP"),
        },
    );
}

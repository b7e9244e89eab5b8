//! Looks sockets up for use, and takes a parent's sockets over in a forked child.

use crate::errno::{Errno, check};
use crate::link::Op;
use crate::socket::{Phase, Socket};
use crate::{connect, eventfd, hidden, link, listen, real, table};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Looks up a socket that is connecting, connected or listening over RDMA. `None` if the kernel answers
/// for the descriptor.
#[inline]
pub(crate) fn resolve_active(fd: c_int) -> Option<Arc<Socket>> {
    resolve(fd).filter(|socket| socket.phase() != Phase::Fresh)
}

/// Looks up a socket in any phase, after advancing its connection attempt. A connection of the parent
/// is taken over first; the kernel then answers for it.
pub(crate) fn resolve(fd: c_int) -> Option<Arc<Socket>> {
    let socket = table::socket(fd)?;
    match socket.phase() {
        Phase::Connecting => connect::progress(&socket),
        Phase::OfParent => {
            take_over_connection(&socket, Op::Use);
            return None;
        }
        _ => return Some(socket),
    }
    table::socket(fd)
}

/// Looks up a socket for a call that accepts or waits for connections. A child takes over its parent's
/// listener.
pub(crate) fn resolve_for_wait(fd: c_int) -> Option<Arc<Socket>> {
    let socket = resolve(fd)?;
    if socket.phase() == Phase::ListenerOfParent {
        take_over_listener(fd, &socket);
    }
    if socket.phase() == Phase::Listening {
        socket.is_used.store(true, Ordering::Release);
    }
    Some(socket)
}

/// Takes over a connection from the parent. The kernel owns its descriptors from now on. If the parent
/// has exited, they are not connected.
pub(crate) fn take_over_connection(socket: &Arc<Socket>, op: Op) {
    if let Ok(Some(end)) = link::ask(op, socket.id) {
        for fd in table::descriptors(socket) {
            // A descriptor that cannot be replaced stays unconnected.
            let _ = replace(fd, end);
        }
        if socket.is_nonblocking() {
            // Cannot fail: this process owns the descriptor.
            let _ = listen::set_kernel_nonblocking(end, true);
        }
        hidden::close(end);
    }
    table::give_to_kernel(socket);
}

fn replace(fd: c_int, with: c_int) -> Result<(), Errno> {
    // SAFETY: only numbers are passed. `fd` is one of the program's sockets.
    unsafe {
        let flags = check(real::fcntl(fd, libc::F_GETFD, 0))?;
        let flags = match flags & libc::FD_CLOEXEC {
            0 => 0,
            _ => libc::O_CLOEXEC,
        };
        check(real::dup3(with, fd, flags)).map(drop)
    }
}

/// Takes over a listener from the parent, unless the parent accepts connections itself.
fn take_over_listener(fd: c_int, socket: &Arc<Socket>) {
    match link::ask(Op::Listen, socket.id) {
        Ok(_) | Err(Errno(libc::EPIPE)) => listen::listen_after_parent(fd, socket),
        Err(_) => socket.set_phase(Phase::Fresh),
    }
}

/// Called when the program has closed the last descriptor of a socket.
pub(crate) fn note_closed(socket: &Socket) {
    if matches!(socket.phase(), Phase::OfParent | Phase::ListenerOfParent) {
        link::tell(Op::Release, socket.id);
    }
    for wake in crate::socket::lock(&socket.relays).iter() {
        eventfd::signal(*wake);
    }
}

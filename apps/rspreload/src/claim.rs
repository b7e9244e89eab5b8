//! A forked child's use of its parent's sockets.

use crate::errno::{Errno, check};
use crate::link::What;
use crate::socket::{Phase, Socket};
use crate::{connect, hidden, listen, parent, real, table};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The socket of a descriptor, ready for use by this process. `None` if the kernel answers for it.
#[inline]
pub(crate) fn in_use(fd: c_int) -> Option<Arc<Socket>> {
    known(fd).filter(|socket| socket.phase() != Phase::Fresh)
}

/// The same, also for a socket that is not connected yet.
pub(crate) fn known(fd: c_int) -> Option<Arc<Socket>> {
    let socket = table::socket(fd)?;
    match socket.phase() {
        Phase::Connecting => connect::progress(&socket),
        Phase::OfParent => {
            connection(&socket, What::Use);
            return None;
        }
        _ => return Some(socket),
    }
    table::socket(fd)
}

/// The same for a call that accepts connections, or waits for them: a child listens instead of its
/// parent then.
pub(crate) fn waited_for(fd: c_int) -> Option<Arc<Socket>> {
    let socket = known(fd)?;
    if socket.phase() == Phase::ListenerOfParent {
        listener(fd, &socket);
    }
    if socket.phase() == Phase::Listening {
        socket.is_used.store(true, Ordering::Release);
    }
    Some(socket)
}

/// Takes a connection over from the parent. Its descriptors are the kernel's from now on: if the parent
/// has ended, not connected.
pub(crate) fn connection(socket: &Arc<Socket>, what: What) {
    if let Ok(Some(end)) = parent::ask(what, socket.id) {
        for fd in table::descriptors(socket) {
            // A descriptor that cannot be replaced stays without a connection.
            let _ = replace(fd, end);
        }
        if socket.is_nonblocking() {
            // It is this process's.
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

/// Listens over RDMA instead of the parent, unless that accepts connections itself.
fn listener(fd: c_int, socket: &Arc<Socket>) {
    match parent::ask(What::Listen, socket.id) {
        Ok(_) | Err(Errno(libc::EPIPE)) => listen::listen_after_parent(fd, socket),
        Err(_) => socket.set_phase(Phase::Fresh),
    }
}

/// The program has closed its last descriptor of a socket.
pub(crate) fn closed(socket: &Socket) {
    if matches!(socket.phase(), Phase::OfParent | Phase::ListenerOfParent) {
        parent::tell(What::Release, socket.id);
    }
    for wake in crate::socket::lock(&socket.relays).iter() {
        let one = 1_u64;
        // SAFETY: the value can be read.
        unsafe { real::write(*wake, (&raw const one).cast(), size_of::<u64>()) };
    }
}

//! The preparations for another program: it gets connections as the kernel's sockets.

use crate::errno::keep;
use crate::link::What;
use crate::socket::Phase;
use crate::{claim, listen, real, say, table};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

/// Called before each `exec`.
pub(crate) fn prepare() {
    keep(|| {
        for (fd, socket) in table::sockets() {
            if closes_on_exec(fd) {
                continue;
            }
            match socket.phase() {
                Phase::OfParent => claim::connection(&socket, What::Keep),
                Phase::Connected => say::once(&format!(
                    "descriptor {fd} is a connection over RDMA, which ends as this process executes \
                     another program"
                )),
                _ if !socket.is_nonblocking()
                    && socket.is_kernel_nonblocking.load(Ordering::Acquire) =>
                {
                    // The program listens over TCP alone. A parent that listens sets the flag again.
                    let _ = listen::set_kernel_nonblocking(fd, false);
                }
                _ => {}
            }
        }
    });
}

fn closes_on_exec(fd: c_int) -> bool {
    // SAFETY: only numbers are passed.
    unsafe { real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0 }
}

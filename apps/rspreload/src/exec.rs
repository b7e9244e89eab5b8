//! Prepares descriptors for `exec`: the new program gets inherited connections as kernel sockets.

use crate::errno::preserve;
use crate::link::Op;
use crate::socket::Phase;
use crate::{claim, listen, real, say, table};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

/// Runs before each `exec`.
pub(crate) fn prepare() {
    preserve(|| {
        for (fd, socket) in table::sockets() {
            if closes_on_exec(fd) {
                continue;
            }
            match socket.phase() {
                Phase::OfParent => claim::take_over_connection(&socket, Op::Keep),
                Phase::Connected => say::once(&format!(
                    "descriptor {fd} is a connection over RDMA, which ends as this process executes \
                     another program"
                )),
                _ if !socket.is_nonblocking()
                    && socket.is_kernel_nonblocking.load(Ordering::Acquire) =>
                {
                    // The new program listens over TCP only. A parent that listens sets the flag
                    // again.
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

//! `listen`: at the same address over TCP and RDMA.

use crate::address::Address;
use crate::errno::{Errno, Outcome, check};
use crate::option_copy::copy_number;
use crate::socket::{Phase, Socket};
use crate::{exit, names, rdmacm, real, say, settings, table};
use libc::c_long;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a child retries to listen at its parent's address.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Listens over RDMA and, with `kernel`, over TCP. If RDMA fails, only TCP listens. If the port is
/// known, RDMA listens first, so that a client that waits until TCP answers finds both.
pub(crate) fn listen(
    fd: c_int,
    socket: &Arc<Socket>,
    backlog: c_int,
    kernel: impl FnOnce() -> c_int,
) -> Outcome<c_int> {
    let over_rdma = || match names::local_address(fd) {
        Ok(Some(at)) if at.0.port() != 0 && allows_rdma(at) => Some((at, open(fd, at, backlog))),
        _ => None,
    };
    let before = over_rdma();
    if let Err(error) = check(kernel()) {
        if let Some((_, Ok(rs))) = before {
            rdmacm::close(rs);
        }
        return Err(error);
    }
    let Some((at, opened)) = before.or_else(over_rdma) else {
        return Ok(0);
    };
    match opened.and_then(|rs| adopt(fd, socket, rs)) {
        Ok(()) => say::log(|| format!("listening at {at} over RDMA and TCP")),
        Err(error) => refuse(at, error),
    }
    Ok(0)
}

/// Whether connections from or to this address may use RDMA.
pub(crate) fn allows_rdma(at: Address) -> bool {
    settings::get().with_loopback || !at.is_loopback()
}

/// Listens at the parent's address. The parent may take a moment to stop.
pub(crate) fn listen_after_parent(fd: c_int, socket: &Arc<Socket>) {
    socket.set_phase(Phase::Fresh);
    let Ok(Some(at)) = names::local_address(fd) else {
        return;
    };
    for _ in 0..TRIES {
        match begin(fd, socket, at, libc::SOMAXCONN) {
            Ok(()) => {
                say::log(|| {
                    format!("listening at {at} over RDMA and TCP, after the parent process")
                });
                return;
            }
            Err(Errno(libc::EADDRINUSE)) => std::thread::sleep(PAUSE),
            Err(error) => return refuse(at, error),
        }
    }
    refuse(at, Errno(libc::EADDRINUSE));
}

fn refuse(at: Address, error: Errno) {
    let why = error.text();
    say::once(&format!(
        "cannot listen at {at} over RDMA ({why}): listening over TCP only"
    ));
}

fn begin(fd: c_int, socket: &Arc<Socket>, at: Address, backlog: c_int) -> Outcome<()> {
    adopt(fd, socket, open(fd, at, backlog)?)
}

/// Opens a listening rsocket.
fn open(fd: c_int, at: Address, backlog: c_int) -> Outcome<c_int> {
    let rs = rdmacm::open_stream(at.domain())?;
    exit::register_wait();
    start(fd, rs, at, backlog).inspect_err(|_| rdmacm::close(rs))?;
    Ok(rs)
}

/// Attaches a listening rsocket to a socket.
fn adopt(fd: c_int, socket: &Socket, rs: c_int) -> Outcome<()> {
    set_kernel_nonblocking(fd, true).inspect_err(|_| rdmacm::close(rs))?;
    socket.is_kernel_nonblocking.store(true, Ordering::Release);
    socket.attach(rs, Phase::Listening);
    for (_, interest) in table::epolls() {
        interest.wake();
    }
    Ok(())
}

fn start(fd: c_int, rs: c_int, at: Address, backlog: c_int) -> Outcome<()> {
    copy_number(fd, rs, (libc::SOL_SOCKET, libc::SO_REUSEADDR));
    if at.domain() == libc::AF_INET6 {
        copy_number(fd, rs, (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY));
    }
    rdmacm::bind(rs, at)?;
    rdmacm::listen(rs, backlog)
}

/// Sets or clears `O_NONBLOCK` of the kernel's socket. It stays set while the socket listens over RDMA,
/// so that no process blocks in the kernel; [`Socket`] holds the program's choice.
pub(crate) fn set_kernel_nonblocking(fd: c_int, is_set: bool) -> Outcome<()> {
    // SAFETY: only numbers are passed.
    unsafe {
        let flags = check(real::fcntl(fd, libc::F_GETFL, 0))?;
        let wanted = match is_set {
            true => flags | libc::O_NONBLOCK,
            false => flags & !libc::O_NONBLOCK,
        };
        if wanted != flags {
            check(real::fcntl(fd, libc::F_SETFL, c_long::from(wanted)))?;
        }
        Ok(())
    }
}

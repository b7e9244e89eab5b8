//! `connect`: over RDMA first, then over TCP.

use crate::address::Address;
use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::socket::{Attempt, Phase, Socket};
use crate::{
    exit, listen, names, option_copy, poll_set, rdmacm, real, say, settings, signals, table,
};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long RDMA is not tried with a host that did not answer, or a listener that leaves connections
/// to TCP.
const AVOIDED_FOR: Duration = Duration::from_secs(60);

/// Maximum number of remembered hosts and listeners.
const MAX_AVOIDED: usize = 1000;

/// Hosts, or single ports of a host, for which RDMA is not tried, since when.
static AVOIDED: Mutex<BTreeMap<(IpAddr, Option<u16>), Instant>> = Mutex::new(BTreeMap::new());

/// Connects a socket of the program.
pub(crate) fn connect(
    fd: c_int,
    socket: &Arc<Socket>,
    to: Option<Address>,
    kernel: impl Fn() -> c_int,
) -> Outcome<c_int> {
    match socket.phase() {
        Phase::Fresh => {}
        Phase::Connecting => return connect_again(fd, socket, &kernel),
        Phase::Connected => {
            // The first call after an attempt returns its result.
            let is_first = socket.attempt().take().is_some();
            return if is_first {
                Ok(0)
            } else {
                Err(Errno(libc::EISCONN))
            };
        }
        Phase::Listening | Phase::OfParent | Phase::ListenerOfParent => return check(kernel()),
    }
    if let Some(error) = pending_error(socket) {
        return Err(error);
    }
    let Some(to) = to.filter(|to| should_try_rdma(*to)) else {
        // The kernel keeps this socket.
        let result = check(kernel());
        if !matches!(
            result,
            Err(Errno(libc::EAFNOSUPPORT | libc::EINVAL | libc::EFAULT))
        ) {
            if let Some(to) = to.filter(|to| listen::allows_rdma(*to))
                && has_begun(result)
            {
                log_tcp(fd, to);
            }
            table::give_to_kernel(socket);
        }
        return result;
    };
    match begin(fd, socket, to) {
        Ok(()) => Ok(0),
        Err(Errno(libc::EINPROGRESS)) if socket.is_nonblocking() => Err(Errno(libc::EINPROGRESS)),
        Err(Errno(libc::EINPROGRESS)) => finish(fd, socket),
        Err(error) => fall_back(fd, socket, to, error),
    }
}

/// Whether to try RDMA for a connection to this address.
fn should_try_rdma(to: Address) -> bool {
    listen::allows_rdma(to) && (settings::get().is_only || !is_avoided(to))
}

fn begin(fd: c_int, socket: &Arc<Socket>, to: Address) -> Outcome<()> {
    let to = to.unmapped();
    let rs = rdmacm::open_stream(to.domain())?;
    exit::register_wait();
    let result = start(fd, socket, rs, to);
    if !matches!(result, Ok(()) | Err(Errno(libc::EINPROGRESS))) {
        rdmacm::close(rs);
        return result;
    }
    for (epoll, interest) in table::epolls() {
        interest.take_from_kernel(epoll, fd);
    }
    if result.is_ok() {
        socket.attach(rs, Phase::Connected);
        log_connected(rs);
    } else {
        let until = Instant::now() + settings::get().wait;
        *socket.attempt() = Some(Attempt { to, until });
        socket.attach(rs, Phase::Connecting);
    }
    for (_, interest) in table::epolls() {
        interest.wake();
    }
    result
}

fn start(fd: c_int, socket: &Socket, rs: c_int, to: Address) -> Outcome<()> {
    if let Some(own) = names::local_address(fd)?
        && !own.is_unset()
    {
        rdmacm::bind(rs, own.unmapped())?;
    }
    option_copy::copy_to_rsocket(fd, socket, rs);
    rdmacm::connect(rs, to)
}

/// A further `connect` call while an attempt is in progress.
fn connect_again(fd: c_int, socket: &Arc<Socket>, kernel: &impl Fn() -> c_int) -> Outcome<c_int> {
    progress(socket);
    match socket.phase() {
        Phase::Connecting if socket.is_nonblocking() => Err(Errno(libc::EALREADY)),
        Phase::Connecting => finish(fd, socket),
        Phase::Connected => {
            // This call returns the result.
            socket.attempt().take();
            Ok(0)
        }
        _ => match pending_error(socket) {
            Some(error) => Err(error),
            None => check(kernel()),
        },
    }
}

/// Waits until an attempt completes.
fn finish(fd: c_int, socket: &Arc<Socket>) -> Outcome<c_int> {
    let limit = Until::after_limit(socket.send_limit());
    loop {
        let Some(until) = attempt_until(socket) else {
            return pending_error(socket).map_or(Ok(0), Err);
        };
        let mut fds = [poll_set::entry(socket.rs(), libc::POLLOUT)];
        match rdmacm::poll(&mut fds, until.left_milliseconds()) {
            Err(Errno(libc::EINTR)) if signals::should_restart(limit) => {}
            result => drop(result?),
        }
        let Some((to, error)) = poll_outcome(socket) else {
            continue;
        };
        if error == Errno(0) {
            // This call returns the result.
            socket.attempt().take();
            return Ok(0);
        }
        return fall_back(fd, socket, to, error).inspect_err(|error| {
            if error.0 != libc::EINPROGRESS {
                return_to_kernel(socket);
            }
        });
    }
}

/// When the attempt in progress times out; `None` if there is none.
pub(crate) fn attempt_until(socket: &Socket) -> Option<Until> {
    if socket.phase() != Phase::Connecting {
        return None;
    }
    socket.attempt().map(|attempt| Until::at(attempt.until))
}

/// Advances a connection attempt without waiting. If it failed, the kernel takes the socket and
/// connects over TCP.
pub(crate) fn progress(socket: &Arc<Socket>) {
    if socket.phase() != Phase::Connecting {
        return;
    }
    let Some((to, error)) = poll_outcome(socket) else {
        return;
    };
    if error == Errno(0) {
        return;
    }
    let Some(fd) = table::descriptors(socket).first().copied() else {
        return;
    };
    match fall_back(fd, socket, to, error) {
        Ok(_) | Err(Errno(libc::EINPROGRESS)) => {}
        Err(error) => {
            socket.error.store(error.0, Ordering::Release);
            return_to_kernel(socket);
        }
    }
}

/// Hands a socket back to the kernel after a failed attempt. The unconnected kernel socket answers
/// all further calls.
fn return_to_kernel(socket: &Arc<Socket>) {
    for fd in table::descriptors(socket) {
        for (epoll, interest) in table::epolls() {
            interest.return_to_kernel(epoll, fd);
        }
    }
}

/// Returns the outcome of a completed attempt to the first caller that asks: 0 for success. Leaves the
/// socket connected or fresh.
fn poll_outcome(socket: &Socket) -> Option<(Address, Errno)> {
    let mut attempt = socket.attempt();
    if socket.phase() != Phase::Connecting {
        return None;
    }
    let Attempt { to, until } = (*attempt)?;
    let events = rdmacm::poll_one(socket.rs(), libc::POLLOUT);
    let error = match events {
        0 if Instant::now() < until => return None,
        0 => libc::ETIMEDOUT,
        _ => match rdmacm::take_error(socket.rs()) {
            0 if events & (libc::POLLERR | libc::POLLNVAL) != 0 => libc::ECONNREFUSED,
            error => error,
        },
    };
    if error == 0 {
        socket.set_phase(Phase::Connected);
        log_connected(socket.rs());
    } else {
        *attempt = None;
        socket.drop_rsocket();
    }
    Some((to, Errno(error)))
}

/// Connects over TCP, after an error over RDMA.
fn fall_back(fd: c_int, socket: &Arc<Socket>, to: Address, error: Errno) -> Outcome<c_int> {
    let why = match error.0 {
        libc::EPROTONOSUPPORT => {
            avoid(to, Some(to.0.port()));
            String::from("the program there passes connections to forked children")
        }
        libc::ETIMEDOUT | libc::EHOSTUNREACH => {
            avoid(to, None);
            error.text()
        }
        _ => error.text(),
    };
    if settings::get().is_only {
        return Err(error);
    }
    say::once(&format!(
        "no connection to {to} over RDMA ({why}): falling back to TCP"
    ));
    let (raw, size) = to.in_domain(socket.domain).raw();
    // SAFETY: the address has this size.
    let result = check(unsafe { real::connect(fd, (&raw const raw).cast(), size) });
    if has_begun(result) {
        log_tcp(fd, to);
        table::give_to_kernel(socket);
    }
    result
}

/// Takes the error of an attempt that has not been reported to the program.
pub(crate) fn pending_error(socket: &Socket) -> Option<Errno> {
    match socket.error.swap(0, Ordering::AcqRel) {
        0 => None,
        error => Some(Errno(error)),
    }
}

fn log_connected(rs: c_int) {
    say::log(|| match (rdmacm::own_name(rs), rdmacm::peer_name(rs)) {
        (Ok(own), Ok(peer)) => format!("{own} -> {peer} over RDMA"),
        _ => String::from("a connection over RDMA"),
    });
}

/// Whether the kernel is connecting or connected.
fn has_begun(result: Outcome<c_int>) -> bool {
    matches!(result, Ok(_) | Err(Errno(libc::EINPROGRESS)))
}

fn log_tcp(fd: c_int, to: Address) {
    say::log(|| match names::local_address(fd) {
        Ok(Some(own)) => format!("{own} -> {to} over TCP"),
        _ => format!("a connection to {to} over TCP"),
    });
}

fn is_avoided(to: Address) -> bool {
    // In a forked child, a thread that the child lacks may hold the lock.
    let Ok(mut avoided) = AVOIDED.try_lock() else {
        return false;
    };
    avoided.retain(|_, since| since.elapsed() <= AVOIDED_FOR);
    let to = to.unmapped().0;
    [None, Some(to.port())]
        .into_iter()
        .any(|port| avoided.contains_key(&(to.ip(), port)))
}

fn avoid(to: Address, port: Option<u16>) {
    if let Ok(mut avoided) = AVOIDED.try_lock()
        && avoided.len() < MAX_AVOIDED
    {
        avoided.insert((to.unmapped().0.ip(), port), Instant::now());
    }
}

//! `connect`: over RDMA first, then over TCP.

use crate::address::Address;
use crate::clock::Until;
use crate::errno::{Errno, Outcome, check};
use crate::socket::{Attempt, Phase, Socket};
use crate::{carried, exit, listen, names, rdmacm, real, say, settings, signals, table};
use libc::pollfd;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a host that did not answer over RDMA, or a listener that leaves connections to TCP, is not
/// tried again.
const AVOIDED_FOR: Duration = Duration::from_secs(60);

/// The most hosts and listeners that are remembered.
const MAX_AVOIDED: usize = 1000;

/// What is not tried: a host, or one of its ports.
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
        Phase::Connecting => return again(fd, socket, &kernel),
        Phase::Connected => {
            // The first call after a connection attempt has its result.
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
    let Some(to) = to.filter(|to| is_tried(*to)) else {
        // It is the kernel's, whatever comes.
        let result = check(kernel());
        if !matches!(
            result,
            Err(Errno(libc::EAFNOSUPPORT | libc::EINVAL | libc::EFAULT))
        ) {
            if let Some(to) = to.filter(|to| listen::is_meant(*to))
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

/// Whether connections to this address may go over RDMA.
fn is_tried(to: Address) -> bool {
    listen::is_meant(to) && (settings::get().is_only || !is_avoided(to))
}

fn begin(fd: c_int, socket: &Arc<Socket>, to: Address) -> Outcome<()> {
    let to = to.unmapped();
    let rs = rdmacm::stream(to.domain())?;
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
        socket.put(rs, Phase::Connected);
        log_connected(rs);
    } else {
        let until = Instant::now() + settings::get().wait;
        *socket.attempt() = Some(Attempt { to, until });
        socket.put(rs, Phase::Connecting);
    }
    for (_, interest) in table::epolls() {
        interest.wake();
    }
    result
}

fn start(fd: c_int, socket: &Socket, rs: c_int, to: Address) -> Outcome<()> {
    if let Some(own) = names::of_kernel(fd)?
        && !own.is_nothing()
    {
        rdmacm::bind(rs, own.unmapped())?;
    }
    carried::to_rsocket(fd, socket, rs);
    rdmacm::connect(rs, to)
}

/// A further call while the first is on its way.
fn again(fd: c_int, socket: &Arc<Socket>, kernel: &impl Fn() -> c_int) -> Outcome<c_int> {
    progress(socket);
    match socket.phase() {
        Phase::Connecting if socket.is_nonblocking() => Err(Errno(libc::EALREADY)),
        Phase::Connecting => finish(fd, socket),
        Phase::Connected => {
            // The call has the result.
            socket.attempt().take();
            Ok(0)
        }
        _ => match pending_error(socket) {
            Some(error) => Err(error),
            None => check(kernel()),
        },
    }
}

/// Waits for the end of an attempt.
fn finish(fd: c_int, socket: &Arc<Socket>) -> Outcome<c_int> {
    let limit = Until::after_limit(socket.send_limit());
    loop {
        let Some(until) = attempt_until(socket) else {
            return pending_error(socket).map_or(Ok(0), Err);
        };
        let mut fds = [pollfd {
            fd: socket.rs(),
            events: libc::POLLOUT,
            revents: 0,
        }];
        match rdmacm::poll(&mut fds, until.left_milliseconds()) {
            Err(Errno(libc::EINTR)) if signals::restarts(limit) => {}
            result => drop(result?),
        }
        let Some((to, error)) = outcome(socket) else {
            continue;
        };
        if error == Errno(0) {
            // This call has the result.
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

/// When an attempt that is under way is given up; `None` if there is none.
pub(crate) fn attempt_until(socket: &Socket) -> Option<Until> {
    if socket.phase() != Phase::Connecting {
        return None;
    }
    socket.attempt().map(|attempt| Until::at(attempt.until))
}

/// Takes a connection attempt further, without waiting. If it failed, TCP is tried, and the socket is
/// the kernel's.
pub(crate) fn progress(socket: &Arc<Socket>) {
    if socket.phase() != Phase::Connecting {
        return;
    }
    let Some((to, error)) = outcome(socket) else {
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

/// After an attempt that failed. The kernel's socket, which is not connected, is ready for all calls.
fn return_to_kernel(socket: &Arc<Socket>) {
    for fd in table::descriptors(socket) {
        for (epoll, interest) in table::epolls() {
            interest.return_to_kernel(epoll, fd);
        }
    }
}

/// The outcome of an attempt, for the one caller that finds it out: 0 for success. The socket is then
/// connected or fresh.
fn outcome(socket: &Socket) -> Option<(Address, Errno)> {
    let mut attempt = socket.attempt();
    if socket.phase() != Phase::Connecting {
        return None;
    }
    let Attempt { to, until } = (*attempt)?;
    let events = rdmacm::ready(socket.rs(), libc::POLLOUT);
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
            String::from("its program lets forked children use connections")
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
        "no connection to {to} over RDMA ({why}): it goes over TCP"
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

/// The error of an attempt that the program does not know yet.
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

/// Whether the kernel connects, or has done so.
fn has_begun(result: Outcome<c_int>) -> bool {
    matches!(result, Ok(_) | Err(Errno(libc::EINPROGRESS)))
}

fn log_tcp(fd: c_int, to: Address) {
    say::log(|| match names::of_kernel(fd) {
        Ok(Some(own)) => format!("{own} -> {to} over TCP"),
        _ => format!("a connection to {to} over TCP"),
    });
}

fn is_avoided(to: Address) -> bool {
    // A forked child may find the lock held by a thread that it does not have.
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

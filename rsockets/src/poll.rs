//! `poll` over rsockets and ordinary descriptors.

use crate::any::AnySocket;
use crate::error::Error;
use crate::nic::Nic;
use crate::table::lookup;
use crate::wait::{Patience, Spinning, Turn, poll_timeout};
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::time::Duration;

/// A descriptor to wait for, as in `struct pollfd`. A negative one is ignored.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PollFd {
    /// The descriptor: that of an rsocket, or any other.
    pub fd: RawFd,
    /// The events to wait for.
    pub events: i16,
    /// The events that are ready, set by [`poll`].
    pub revents: i16,
}

/// Waits at most `limit` until a descriptor is ready, and returns the number of those that are.
/// `None` means for ever.
///
/// # Errors
/// EINTR after a signal, and the other errors of `poll`.
pub fn poll(fds: &mut [PollFd], limit: Option<Duration>) -> Result<usize, Error> {
    let patience = Patience::of(limit);
    let sockets: Vec<Option<AnySocket>> = fds.iter().map(|each| lookup(each.fd)).collect();
    let mut spinning = Spinning::default();
    let mut turn = Turn::default();
    let mut system = Vec::new();
    loop {
        let (ready, _) = look(fds, &sockets, Some(&mut Vec::new()))?;
        turn.note_progress();
        if ready > 0 || patience.is_over() {
            return Ok(ready);
        }
        if sockets.iter().any(Option::is_some) && spinning.goes_on() {
            continue;
        }
        let mut rsockets = sockets.iter().flatten();
        turn.begin(|| rsockets.find_map(AnySocket::drive_while_waiting));
        system.clear();
        let mut until = patience;
        for (each, socket) in fds.iter().zip(&sockets) {
            match socket {
                Some(socket) => {
                    until = until.or_at(socket.begin_sleep(|fd| system.push(readable(fd))));
                }
                None => system.push(libc::pollfd {
                    fd: each.fd,
                    events: each.events,
                    revents: 0,
                }),
            }
        }
        // Since the sockets were looked at, something may have happened.
        let slept = match look(fds, &sockets, None) {
            Ok((0, false)) => sleep(&mut turn, &mut system, until.left()),
            // Where something has happened, other descriptors may tell of what happens next.
            other => other.map(|(ready, _)| ready),
        };
        for socket in sockets.iter().flatten() {
            socket.end_sleep();
        }
        slept?;
    }
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Sets what is ready, without waiting, and returns the number of descriptors that are. With
/// `driven`, lets each NIC work once, and notes it there: a NIC works for all its sockets, and that
/// takes longer than to look at them. Also returns whether anything has happened to the sockets.
fn look(
    fds: &mut [PollFd],
    sockets: &[Option<AnySocket>],
    mut driven: Option<&mut Vec<*const Nic>>,
) -> Result<(usize, bool), Error> {
    let mut ready = 0;
    let mut changed = false;
    let mut others = false;
    for (each, socket) in fds.iter_mut().zip(sockets) {
        each.revents = 0;
        if let Some(socket) = socket {
            changed |= socket.progress(|nic| match &mut driven {
                Some(driven) if !driven.contains(&nic) => {
                    driven.push(nic);
                    true
                }
                _ => false,
            });
            each.revents = socket.ready(each.events);
            ready += usize::from(each.revents != 0);
        }
        others |= socket.is_none() && each.fd >= 0;
    }
    if !others {
        return Ok((ready, changed));
    }
    let mut system: Vec<libc::pollfd> = fds
        .iter()
        .zip(sockets)
        .map(|(each, socket)| libc::pollfd {
            fd: if socket.is_none() { each.fd } else { -1 },
            events: each.events,
            revents: 0,
        })
        .collect();
    ready += system_poll(&mut system, Some(Duration::ZERO))?;
    for (each, system) in fds.iter_mut().zip(&system) {
        each.revents |= system.revents;
    }
    Ok((ready, changed))
}

/// Sleeps until a descriptor is ready, or may be.
fn sleep(
    turn: &mut Turn,
    fds: &mut [libc::pollfd],
    limit: Option<Duration>,
) -> Result<usize, Error> {
    let own = fds.iter().map(|each| (each.fd, each.events));
    match turn.sleep(own, limit)? {
        true => Ok(0),
        false => system_poll(fds, limit),
    }
}

/// The system's `poll`.
fn system_poll(fds: &mut [libc::pollfd], limit: Option<Duration>) -> Result<usize, Error> {
    let count = fds.len() as libc::nfds_t;
    // SAFETY: the slice has this number of elements.
    let result = unsafe { libc::poll(fds.as_mut_ptr(), count, poll_timeout(limit).into()) };
    usize::try_from(result).map_err(|_| Errno::last().into())
}

//! `poll` over rsockets and ordinary descriptors.

use crate::any::AnySocket;
use crate::error::Error;
use crate::nic::Nic;
use crate::system::{readable, system_poll};
use crate::table::lookup;
use crate::wait::{Patience, Spinning, Turn};
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
    let has_sockets = sockets.iter().any(Option::is_some);
    let mut spinning = Spinning::default();
    let mut turn = Turn::default();
    let mut system = Vec::new();
    loop {
        let (ready, _) = look(fds, &sockets, Some(&mut Vec::new()));
        let spins = ready == 0 && has_sockets && spinning.may_go_on();
        // A sleep looks at the other descriptors as well.
        if ready > 0 || spins || patience.is_over() {
            let ready = ready + look_at_others(fds, &sockets)?;
            if ready > 0 || patience.is_over() {
                return Ok(ready);
            }
        }
        if spins {
            spinning.pause();
            continue;
        }
        let mut rsockets = sockets.iter().flatten();
        turn.begin(|| rsockets.find_map(AnySocket::drive_while_waiting));
        others(fds, &sockets, &mut system);
        let mut until = patience;
        for socket in sockets.iter().flatten() {
            until = until.or_at(socket.begin_sleep(|fd| system.push(readable(fd))));
        }
        // Since the sockets were looked at, something may have happened.
        let slept = match look(fds, &sockets, None) {
            (0, false) => turn.sleep(&mut system, until.left()),
            // Other descriptors may tell of what happens next.
            _ => system_poll(&mut system, Some(Duration::ZERO)).map(drop),
        };
        for socket in sockets.iter().flatten() {
            socket.end_sleep();
        }
        slept?;
        // The NIC has worked while the thread slept.
        let (ready, _) = look(fds, &sockets, None);
        turn.note_progress();
        let ready = ready + take_others(fds, &sockets, &system);
        if ready > 0 {
            return Ok(ready);
        }
    }
}

/// Sets which sockets are ready, without waiting, and returns their number. With `driven`, lets each
/// NIC work once, and notes it there: a NIC works for all its sockets, and that takes longer than to
/// look at them. Also returns whether anything has happened to the sockets.
fn look(
    fds: &mut [PollFd],
    sockets: &[Option<AnySocket>],
    mut driven: Option<&mut Vec<*const Nic>>,
) -> (usize, bool) {
    let mut ready = 0;
    let mut changed = false;
    for (each, socket) in fds.iter_mut().zip(sockets) {
        each.revents = 0;
        let Some(socket) = socket else { continue };
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
    (ready, changed)
}

/// Writes the descriptors that are no sockets to `system`, in their order.
fn others(fds: &[PollFd], sockets: &[Option<AnySocket>], system: &mut Vec<libc::pollfd>) {
    system.clear();
    let others = fds
        .iter()
        .zip(sockets)
        .filter(|(_, socket)| socket.is_none());
    system.extend(others.map(|(each, _)| libc::pollfd {
        fd: each.fd,
        events: each.events,
        revents: 0,
    }));
}

/// Takes over what the system has found for the descriptors that are no sockets, and returns the number
/// of those that are ready. `system` begins with them.
fn take_others(
    fds: &mut [PollFd],
    sockets: &[Option<AnySocket>],
    system: &[libc::pollfd],
) -> usize {
    let others = fds.iter_mut().zip(sockets);
    let others = others.filter_map(|(each, socket)| socket.is_none().then_some(each));
    let mut ready = 0;
    for (each, found) in others.zip(system) {
        each.revents = found.revents;
        ready += usize::from(each.revents != 0);
    }
    ready
}

/// Sets which of the descriptors that are no sockets are ready, without waiting, and returns their
/// number.
fn look_at_others(fds: &mut [PollFd], sockets: &[Option<AnySocket>]) -> Result<usize, Error> {
    let mut system = Vec::new();
    others(fds, sockets, &mut system);
    if system.iter().all(|each| each.fd < 0) {
        return Ok(0);
    }
    system_poll(&mut system, Some(Duration::ZERO))?;
    Ok(take_others(fds, sockets, &system))
}

//! `poll` for rsockets and ordinary descriptors.

use crate::any::AnySocket;
use crate::error::Error;
use crate::nic::Nic;
use crate::table::lookup;
use crate::wait::{Patience, Spinning, Turn, readable, system_poll};
use std::os::fd::RawFd;
use std::time::Duration;

/// A descriptor to wait for, as in `struct pollfd`. Negative descriptors are ignored.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PollFd {
    /// The descriptor of an rsocket, or any other.
    pub fd: RawFd,
    /// The events to wait for.
    pub events: i16,
    /// The events that are ready, set by [`poll`].
    pub revents: i16,
}

/// Waits at most `limit` until a descriptor is ready and returns the number of ready descriptors.
/// `None` waits forever.
///
/// # Errors
/// EINTR after a signal, and the other errors of `poll`.
pub fn poll(fds: &mut [PollFd], limit: Option<Duration>) -> Result<usize, Error> {
    let patience = Patience::with_limit(limit);
    let sockets: Vec<Option<AnySocket>> = fds.iter().map(|each| lookup(each.fd)).collect();
    let has_sockets = sockets.iter().any(Option::is_some);
    let mut spinning = Spinning::default();
    let mut turn = Turn::default();
    let mut system = Vec::new();
    loop {
        let (ready, _) = check_sockets(fds, &sockets, Some(&mut Vec::new()));
        let spins = ready == 0 && has_sockets && spinning.may_spin();
        // A sleep polls the other descriptors as well.
        if ready > 0 || spins || patience.is_over() {
            let ready = ready + poll_others(fds, &sockets)?;
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
        collect_others(fds, &sockets, &mut system);
        let mut until = patience;
        for socket in sockets.iter().flatten() {
            until = until.earlier_of(socket.begin_sleep(|fd| system.push(readable(fd))));
        }
        // Something may have happened since the last check.
        let slept = match check_sockets(fds, &sockets, None) {
            (0, false) => turn.sleep(&mut system, until.left()),
            // Polls the other descriptors, too.
            _ => system_poll(&mut system, Some(Duration::ZERO)).map(drop),
        };
        for socket in sockets.iter().flatten() {
            socket.end_sleep();
        }
        slept?;
        // The NIC has made progress while the thread slept.
        let (ready, _) = check_sockets(fds, &sockets, None);
        turn.note_progress();
        let ready = ready + apply_others(fds, &sockets, &system);
        if ready > 0 {
            return Ok(ready);
        }
    }
}

/// Checks without blocking which sockets are ready. Returns their number, and whether any socket has
/// made progress. With `driven`, drives each NIC once and records it there: a NIC serves all its
/// sockets, and driving it takes longer than checking them.
fn check_sockets(
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

/// Collects the descriptors that are not rsockets in `system`, in order.
fn collect_others(fds: &[PollFd], sockets: &[Option<AnySocket>], system: &mut Vec<libc::pollfd>) {
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

/// Copies the results for descriptors that are not rsockets from the start of `system`. Returns the
/// number of ready ones.
fn apply_others(
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

/// Polls the descriptors that are not rsockets without blocking, and returns the number of ready ones.
fn poll_others(fds: &mut [PollFd], sockets: &[Option<AnySocket>]) -> Result<usize, Error> {
    let mut system = Vec::new();
    collect_others(fds, sockets, &mut system);
    if system.iter().all(|each| each.fd < 0) {
        return Ok(0);
    }
    system_poll(&mut system, Some(Duration::ZERO))?;
    Ok(apply_others(fds, sockets, &system))
}

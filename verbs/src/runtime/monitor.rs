//! What becomes of the device's interface: its link and its addresses.
//!
//! The kernel tells on a netlink socket when something changes; what it is, is read
//! anew then, as a whole, and compared with what was known. So no message has to be
//! understood, and none that is lost does harm.

use crate::device::Device;
use crate::gid::{GidEntry, GidTable};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use roce_stack::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often the socket is looked at while there is no time to sleep on it.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What of the interface applications hear about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    /// It is up and has a link.
    running: bool,
    gids: Vec<GidEntry>,
}

/// Watches the interface of one device.
pub(crate) struct Monitor {
    device: Device,
    /// `None` where the kernel gives no such socket: then no changes are told.
    socket: Option<OwnedFd>,
    known: Status,
    /// Something may have changed that could not be read yet.
    is_stale: bool,
    last_look: Instant,
}

impl Monitor {
    /// From now on, changes are noticed. The calling thread's network namespace is the
    /// device's.
    pub(crate) fn new(device: &Device) -> Self {
        // First the socket, then the status: a change in between is noticed.
        let socket = subscribe().ok();
        Self {
            device: device.clone(),
            socket,
            known: Status::of(device).unwrap_or_else(|_| Status::as_listed(device)),
            is_stale: false,
            last_look: Instant::now(),
        }
    }

    /// Becomes readable when something may have changed.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    /// Looks whether something has changed, unless it did so just now, and tells what.
    pub(crate) fn look(&mut self, mut tell: impl FnMut(Event)) {
        if self.last_look.elapsed() < LOOK_EVERY {
            return;
        }
        self.last_look = Instant::now();
        self.is_stale |= self.socket.as_ref().is_some_and(drain);
        if !self.is_stale {
            return;
        }
        // A process without a descriptor to spare can't ask: that is no change.
        let Ok(now) = Status::of(&self.device) else {
            return;
        };
        self.is_stale = false;
        for event in changes(&self.known, &now) {
            tell(event);
        }
        self.known = now;
    }
}

impl Status {
    /// As it is now.
    fn of(device: &Device) -> io::Result<Self> {
        Ok(Self {
            gids: GidTable::new(&device.addresses()?, false).entries(),
            running: device.is_running(),
        })
    }

    /// As it was when the device was listed.
    fn as_listed(device: &Device) -> Self {
        Self {
            gids: device.gids(),
            running: device.interface().running,
        }
    }
}

/// What there is to tell of a change.
fn changes(before: &Status, now: &Status) -> impl Iterator<Item = Event> {
    let link = match (before.running, now.running) {
        (false, true) => Some(Event::PortActive),
        (true, false) => Some(Event::PortError),
        _ => None,
    };
    let gids = (before.gids != now.gids).then_some(Event::GidChange);
    gids.into_iter().chain(link)
}

/// A socket that gets a message whenever a link or an address changes.
fn subscribe() -> nix::Result<OwnedFd> {
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    bind(
        socket.as_raw_fd(),
        &NetlinkAddr::new(0, groups.cast_unsigned()),
    )?;
    Ok(socket)
}

/// Throws away all messages. Returns whether there were any.
fn drain(socket: &OwnedFd) -> bool {
    let mut buffer = [0; 4096];
    let mut any = false;
    loop {
        match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            // Some were lost for want of room: something has changed.
            Ok(_) | Err(Errno::ENOBUFS) => any = true,
            Err(Errno::EINTR) => {}
            Err(_) => return any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(running: bool, addresses: &[&str]) -> Status {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|a| a.parse().expect("valid"))
            .collect();
        Status {
            running,
            gids: GidTable::new(&addresses, false).entries(),
        }
    }

    #[test]
    fn each_change_is_told() {
        let told = |before: &Status, now: &Status| -> Vec<_> { changes(before, now).collect() };
        let up = status(true, &["10.0.0.1"]);
        let down = status(false, &["10.0.0.1"]);
        let moved = status(true, &["10.0.0.2"]);
        let gone = status(false, &[]);
        assert_eq!(told(&up, &up), []);
        assert_eq!(told(&up, &down), [Event::PortError]);
        assert_eq!(told(&down, &up), [Event::PortActive]);
        assert_eq!(told(&up, &moved), [Event::GidChange]);
        assert_eq!(told(&up, &gone), [Event::GidChange, Event::PortError]);
    }
}

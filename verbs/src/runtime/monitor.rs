//! Reports changes of the device's interface: its link and its addresses.
//!
//! The kernel sends a message on a netlink socket when something changes. The whole status is then
//! read again and compared with the last one. So no message needs to be parsed, and a lost message
//! does no harm.

use crate::device::Device;
use crate::gid::{GidEntry, GidTable};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use roce_stack::Event;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The interval at which the socket is checked while the background thread is awake.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The part of the interface's status whose changes are reported to applications.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    /// The interface is up and has a link.
    running: bool,
    gids: Vec<GidEntry>,
}

/// The changes that the kernel's messages made. There may be no event: the kernel also reports that an address
/// which the interface has can be used from now on.
pub(crate) struct Changes {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) events: Vec<Event>,
}

/// Watches the interface of one device.
pub(crate) struct Monitor {
    device: Device,
    /// `None` if the kernel does not provide the socket. Changes are then not reported.
    socket: Option<OwnedFd>,
    known: Status,
    /// Whether the status may have changed since it was last read.
    is_stale: bool,
    last_check: Instant,
}

impl Monitor {
    /// Starts to watch the device's interface. The calling thread's network namespace must be the
    /// device's.
    pub(crate) fn new(device: &Device) -> Self {
        // First the socket, then the status, so that no change in between is missed.
        let socket = subscribe().ok();
        Self {
            device: device.clone(),
            socket,
            known: Status::of(device).unwrap_or_else(|_| Status::as_listed(device)),
            is_stale: false,
            last_check: Instant::now(),
        }
    }

    /// A descriptor that becomes readable when something may have changed.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    /// The changes since the last call, if the kernel reported any. Always `None` within
    /// [`CHECK_INTERVAL`] of the last check.
    pub(crate) fn changes(&mut self) -> Option<Changes> {
        if self.last_check.elapsed() < CHECK_INTERVAL {
            return None;
        }
        self.last_check = Instant::now();
        self.is_stale |= self.socket.as_ref().is_some_and(drain);
        if !self.is_stale {
            return None;
        }
        // A process that has no descriptor left can't read the status. That is not a change.
        let current = Status::of(&self.device).ok()?;
        self.is_stale = false;
        let before = std::mem::replace(&mut self.known, current);
        Some(Changes {
            addresses: self.known.gids.iter().map(|e| e.gid.ip()).collect(),
            events: events_between(&before, &self.known).collect(),
        })
    }
}

impl Status {
    fn of(device: &Device) -> io::Result<Self> {
        Ok(Self {
            gids: GidTable::new(&device.addresses()?, false).entries(),
            running: device.is_running(),
        })
    }

    /// The status when the device was listed.
    fn as_listed(device: &Device) -> Self {
        Self {
            gids: device.gids(),
            running: device.interface().running,
        }
    }
}

fn events_between(before: &Status, after: &Status) -> impl Iterator<Item = Event> {
    let link = match (before.running, after.running) {
        (false, true) => Some(Event::PortActive),
        (true, false) => Some(Event::PortError),
        _ => None,
    };
    let gids = (before.gids != after.gids).then_some(Event::GidChange);
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

/// Discards all messages. Returns whether there were any.
fn drain(socket: &OwnedFd) -> bool {
    let mut buffer = [0; 4096];
    let mut any = false;
    loop {
        match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC) {
            // ENOBUFS: messages were lost because the buffer was full, so something has changed.
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
    fn each_change_raises_its_events() {
        let events =
            |before: &Status, after: &Status| -> Vec<_> { events_between(before, after).collect() };
        let up = status(true, &["10.0.0.1"]);
        let down = status(false, &["10.0.0.1"]);
        let moved = status(true, &["10.0.0.2"]);
        let gone = status(false, &[]);
        assert_eq!(events(&up, &up), []);
        assert_eq!(events(&up, &down), [Event::PortError]);
        assert_eq!(events(&down, &up), [Event::PortActive]);
        assert_eq!(events(&up, &moved), [Event::GidChange]);
        assert_eq!(events(&up, &gone), [Event::GidChange, Event::PortError]);
    }
}

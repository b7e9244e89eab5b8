//! Carries the core's requests to the kernel, and the kernel's events to the core.
//!
//! There are two sockets. On one, requests are sent, and their answers arrive before the send
//! returns. On the other, events wait until they are read.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use netlink_packet_route::RouteNetlinkMessage;

use super::core::Core;
use super::event::{Event, NeighbourState, PathKey, Request};
use socket::{Datagram, Kernel, Kind, NetlinkSocket, Parsed};

mod decode;
mod encode;
#[cfg(any(test, fuzzing))]
pub(crate) mod hostile;
mod socket;

/// The maximum number of event datagrams that one call reads. The caller also has to receive and
/// send frames.
const MAX_EVENT_DATAGRAMS: usize = 64;

/// The sockets to the kernel.
pub(super) struct Netlink<K = NetlinkSocket> {
    index: u32,
    requests: K,
    events: K,
}

impl Netlink {
    /// Subscribes to events for the interface with this index, in the network namespace of this
    /// thread.
    pub(super) fn open(index: u32) -> io::Result<Netlink> {
        Ok(Netlink {
            index,
            // Subscribe first, so that no event is missed after the first request.
            events: NetlinkSocket::for_events()?,
            requests: NetlinkSocket::for_requests()?,
        })
    }

    /// A descriptor that is readable when events wait.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.events.fd()
    }
}

impl<K: Kernel> Netlink<K> {
    /// Passes pending events to the core, at most [`MAX_EVENT_DATAGRAMS`] datagrams.
    pub(super) fn pass_events(&mut self, core: &mut Core) -> io::Result<()> {
        for _ in 0..MAX_EVENT_DATAGRAMS {
            let bytes = match self.events.receive()? {
                Datagram::None => break,
                Datagram::Overrun => {
                    core.handle(Event::Overrun);
                    continue;
                }
                Datagram::Messages(bytes) => bytes,
            };
            for parsed in socket::messages(bytes) {
                let event = match parsed {
                    Parsed::Message { message, .. } => decode::event(&message, self.index),
                    Parsed::End { .. } => None,
                    Parsed::Unknown(kind) => {
                        core.counters_mut().unparsed += 1;
                        decode::event_of_unknown(kind)
                    }
                };
                if let Some(event) = event {
                    core.handle(event);
                }
            }
        }
        Ok(())
    }

    /// Carries out the core's requests, and passes the answers to it.
    pub(super) fn serve(&mut self, core: &mut Core) {
        while let Some(request) = core.next_request() {
            let answer = match request {
                Request::Link => self.link(core),
                Request::Addresses => self.addresses(core),
                Request::Route(key) => self.route(core, key),
                Request::Neighbour(address) => self.neighbour(core, address),
                Request::OtherLink(other) => self.other_link(core, other),
            };
            if answer.is_err() {
                // The core continues without the answer, and repeats the request when needed.
                core.counters_mut().failed_requests += 1;
            }
        }
    }

    fn link(&mut self, core: &mut Core) -> io::Result<()> {
        let index = self.index;
        let mut events = Vec::new();
        let answer = self.request(core, Kind::Get, encode::link(index), |message| {
            events.extend(decode::event(message, index));
        });
        if let Err(error) = &answer
            && error.raw_os_error() == Some(libc::ENODEV)
        {
            core.handle(Event::LinkGone);
            return Ok(());
        }
        for event in events {
            core.handle(event);
        }
        answer
    }

    fn addresses(&mut self, core: &mut Core) -> io::Result<()> {
        let index = self.index;
        let (mut own, mut others) = (Vec::new(), Vec::new());
        self.request(core, Kind::Dump, encode::addresses(), |message| {
            if let RouteNetlinkMessage::NewAddress(message) = message {
                own.extend(decode::address(message, index));
                others.extend(decode::other_address(message, index));
            }
        })?;
        core.handle(Event::Addresses(own));
        core.handle(Event::Others(others));
        Ok(())
    }

    /// Requests the link of another interface. The answer may be that the interface is gone.
    fn other_link(&mut self, core: &mut Core, other: u32) -> io::Result<()> {
        let mut link = Event::OtherLink {
            index: other,
            mac: None,
        };
        let answer = self.request(core, Kind::Get, encode::link(other), |message| {
            if let RouteNetlinkMessage::NewLink(message) = message {
                link = decode::other_link(message).unwrap_or(link.clone());
            }
        });
        match answer {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Err(error),
            _ => {
                core.handle(link);
                Ok(())
            }
        }
    }

    fn route(&mut self, core: &mut Core, key: PathKey) -> io::Result<()> {
        let index = self.index;
        let mut route = None;
        let answer = self.request(core, Kind::Get, encode::route(index, key), |message| {
            if let RouteNetlinkMessage::NewRoute(message) = message {
                route = Some(decode::route(message, index));
            }
        });
        if let Err(error) = &answer {
            route = decode::route_error(error);
        }
        match route {
            Some(route) => core.handle(Event::Route(key, route)),
            None => answer?,
        }
        Ok(())
    }

    /// Requests the state of a neighbour, and makes the kernel resolve it if its entry is neither
    /// valid nor incomplete.
    fn neighbour(&mut self, core: &mut Core, address: IpAddr) -> io::Result<()> {
        let mut known = self.kernel_state(core, address)?;
        // `NTF_USE` would turn a permanent entry into an ordinary one. Other valid entries need no
        // request, and the kernel is already resolving an incomplete one.
        if !matches!(
            known,
            Event::Neighbour {
                state: NeighbourState::Valid | NeighbourState::Incomplete,
                ..
            }
        ) {
            let in_use = encode::neighbour_in_use(self.index, address);
            self.request(core, Kind::Change, in_use, |_| {})?;
            known = self.kernel_state(core, address)?;
        }
        core.handle(known);
        Ok(())
    }

    /// Requests the kernel's state of a neighbour.
    fn kernel_state(&mut self, core: &mut Core, address: IpAddr) -> io::Result<Event> {
        let index = self.index;
        let mut event = None;
        let message = encode::neighbour_state(index, address);
        let answer = self.request(core, Kind::Get, message, |message| {
            if let RouteNetlinkMessage::NewNeighbour(message) = message {
                event = decode::neighbour(message, index);
            }
        });
        match answer {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(event.unwrap_or(Event::NeighbourGone(address))),
        }
    }

    /// Sends a request, and passes the decoded messages of the answer to `each`.
    fn request(
        &mut self,
        core: &mut Core,
        kind: Kind,
        message: RouteNetlinkMessage,
        mut each: impl FnMut(&RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.requests.request(kind, message, |parsed| match parsed {
            Parsed::Message { message, .. } => each(&message),
            Parsed::Unknown(_) => core.counters_mut().unparsed += 1,
            Parsed::End { .. } => {}
        })
    }
}
